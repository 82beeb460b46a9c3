"""Files of a command: read with a progress bar, and checked before hours of work end in one that cannot be written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rankwright.cli.engines import open_partitioned
from rankwright.cli.printing import reading
from rankwright.cli.tables import tell_layout
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.cluster.cluster import Transport
    from rankwright.data.dataset import RankingData
    from rankwright.io.roles import Columns


def read_features(
    path: Path,
    group: Path | None = None,
    *,
    negative_as_zero: bool = False,
    columns: Columns | None = None,
    threads: int = 1,
    engine: Transport | None = None,
) -> RankingData:
    """The feature data of a file, with a line on what the columns of a table are taken for; parts with an engine."""
    from rankwright.io.detect import detected, read_data

    if engine is not None:
        return open_partitioned(path, engine, group, columns)
    with detected(path, columns) as found:
        tell_layout(found, columns)
        with reading(path) as update:
            negative: Literal["error", "zero"] = "zero" if negative_as_zero else "error"
            return read_data(found, group=group, negative=negative, columns=columns, n_jobs=threads, progress=update)


def check_target(target: Path, sources: Iterable[Path | None], *, is_folder: bool = False) -> None:
    """Reject a file or folder that cannot be written or that is being read."""
    if target.is_dir() and not is_folder:
        raise InputError("is a folder; expected a file name to write to", target)
    if not target.parent.is_dir():
        raise InputError("cannot be written: No such file or directory", target)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError("cannot be written: Permission denied", target)
    if target.exists() and any(source and source.exists() and target.samefile(source) for source in sources):
        raise InputError("is also an input; expected another name to write to", target)


def check_plots(plots: Iterable[Path], targets: Sequence[Path], sources: Sequence[Path | None]) -> None:
    """Reject plots of an unknown kind, and files (plots and others) that could not be written in the end."""
    from rankwright.data.display import check_plot_name

    for plot in plots:
        check_plot_name(plot)
    for number, target in enumerate(targets):
        check_target(target, sources)
        if target in targets[:number]:
            raise InputError("is given twice; expected different files to write to", target)


@contextmanager
def naming_files(files: Mapping[str, Path | None]) -> Iterator[None]:
    """Name the file in errors about a part of the data, such as ``training data``."""
    try:
        yield
    except InputError as error:
        fact = getattr(error, "fact", None)  # of a MissingValuesError
        if fact is not None:
            raise _missing_values(fact, list(files.values())) from None
        if str(error.path) not in files:
            raise
        raise InputError(error.message, files[str(error.path)], error.line) from None


def _missing_values(fact: str, files: Sequence[Path | None]) -> InputError:
    """What to do about missing values, in the words of the command line; files begin with training, validation."""
    path = files[1] if fact.startswith("eval_set") and len(files) > 1 and files[1] is not None else files[0]
    fact = f"has{fact.partition(' has')[2]}"
    return InputError(f"{fact}; {ways_to_fill(path)}, or cut features into bins (--bins 50, linear methods)", path)


def ways_to_fill(path: Path | None, *, trained: bool = False) -> str:
    """What to do about missing values of a file, for training or, ``trained``, for a model that is there."""
    them = "missing values as for training" if trained else "them"
    fill = f"fill {them} (rankwright convert {path} -o filled.rank --fill 0)"
    return f"{fill}, {'or ' if trained else ''}train trees, which take them (--method lambdamart, mcrank or auto)"


def check_missing(data: RankingData, target: Path, remedy: str = "") -> None:
    """Refuse missing numbers in a file that cannot be read with them; a remedy may name the feature, ``{name}``."""
    import numpy as np

    from rankwright.io.detect import suffix_of

    if suffix_of(target) in (".rank", ".qrels") or data.is_sparse:
        return
    missing = np.isnan(data.X).sum(axis=0)
    if missing.any():
        at = int(np.argmax(missing))
        name = data.names[at]
        what = f"the number {name!r} is missing in {missing[at]:,} of {data.n_docs:,} rows"
        raise InputError(f"{what}; expected a folder (.rank), which can hold that{remedy.format(name=name)}", target)
