"""Reports: the results of an experiment as one HTML file to read. Reads plain files; knows no experiment code."""

from rankwright.reports.page import write_report

__all__ = ["write_report"]
