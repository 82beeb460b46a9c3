"""The order in which files are tested, so that two workers end together and compile little twice.

First come the commands of the documentation, which compile most kernels. Beside them another worker takes the folders
whose tests compile little, and only then, when most is compiled, those that train. Short files come last.
"""

ORDER = (
    *("test_shown.py", "reports", "judging", "serving", "exporting", "io", "data", "evaluation", "test_docs.py"),
    *("test_guards.py", "importing", "datasets", "gpu", "cluster", "rankers", "maxmargin", "boosting", "text", "nets"),
    *("measures", "experiments", "test_notebook.py", "training", "committee", "adaptation", "cli"),
)


def ordered(items, here):
    """Tests in that order, those of a file as they stand."""

    def place(item):
        parts = item.path.relative_to(here).parts if item.path.is_relative_to(here) else ("",)
        return ORDER.index(parts[0]) if parts[0] in ORDER else len(ORDER)

    return sorted(items, key=place)
