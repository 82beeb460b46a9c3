"""Reports: the results of an experiment as one HTML file. Reads plain files; knows nothing of experiment code."""

from rankwright.reports.page import write_report

__all__ = ["write_report"]
