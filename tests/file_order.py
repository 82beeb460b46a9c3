"""The order in which files are tested, so that two workers end together and compile little twice.

First come the commands of the documentation, which compile most kernels. Beside them another worker takes the folders
whose tests compile little, and only then, when most is compiled, those that train. Short files come last.
"""

ORDER = (
    *("test_shown.py", "reports", "test_guards.py", "evaluation", "measures", "importing"),
    *("serving", "judging", "exporting", "io", "data", "test_docs.py", "datasets", "gpu", "cluster", "rankers"),
    *("maxmargin", "boosting", "text", "nets", "experiments", "test_notebook.py", "training", "committee"),
    *("adaptation", "cli"),
)


def ordered(items, here):
    """Tests in that order, those of a file as they stand."""

    def place(item):
        parts = item.path.relative_to(here).parts if item.path.is_relative_to(here) else ("",)
        return ORDER.index(parts[0]) if parts[0] in ORDER else len(ORDER), parts

    return sorted(items, key=place)
