"""The scale from which boosting starts: LambdaMART and LambdaBoost from a background, by the spread of its scores.

The tasks of `study_adaptation.py` with features (MQ2007 to MQ2008, TREC-COVID); the background is LambdaMART or
RankingSVM on the rich data. Its scores are brought to each standard deviation within queries; nDCG@10 is averaged over
splits, with validation data (which chooses the number of rounds, up to 200) and without (60 rounds). Needs `mq2007`,
`mq2008` and `trec_covid_runs`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import LambdaBoost, LambdaMART, RankingSVM, evaluate
from study_adaptation import Task, covid, letor
from study_data import Shown, Table, run_study

SPREADS = ("0.15", "0.25", "0.5", "0.7", "1", "3", "10")
MEASURE = "nDCG@10"


def main() -> int:
    """Run the study and print its table."""
    run_study(__doc__, ("mq2007", "mq2008", "trec_covid_runs"), _pages)
    return 0


def _pages(root: Path) -> Iterable[Shown]:
    warnings.simplefilter("ignore")
    rows: list[list[Any]] = []
    for name, make in {"MQ2008": letor, "TREC-COVID": covid}.items():
        task = make(root)
        backgrounds = {"LambdaMART": task.background, "RankingSVM": RankingSVM(0.01).fit(task.background_data).model_}
        for kind, background in backgrounds.items():
            for spread in SPREADS:
                rows += [[name, kind, *row] for row in _rows(task, background, spread)]
            print(name, kind, file=sys.stderr, flush=True)
    head = ["new domain", "background", "test", "standard deviation", "ranker", MEASURE, "without validation"]
    yield Table("spreads", head, rows, ["", "", "", "", "", "short", "short"])


def _rows(task: Task, background: Any, spread: str) -> Iterable[list[Any]]:
    shared: dict[str, Any] = {"background": background, "background_spread": float(spread), "patience": 20}
    rankers = {
        "LambdaMART, L = 4": lambda rounds: LambdaMART(rounds, 0.1, 4, measure=MEASURE, **shared),
        "LambdaMART, L = 10": lambda rounds: LambdaMART(rounds, 0.1, 10, measure=MEASURE, **shared),
        "LambdaBoost": lambda rounds: LambdaBoost(rounds, **shared),
    }
    for name, make in rankers.items():
        found: dict[str, list[tuple[float, float]]] = {}
        for train, valid, tests in task.splits:
            fitted = [make(200).fit(train, eval_set=valid), make(60).fit(train)]
            for test, data in tests.items():
                means = [evaluate(data, one.predict(data), measures=[MEASURE]).means[MEASURE] for one in fitted]
                found.setdefault(test, []).append((means[0], means[1]))
        for test, values in found.items():
            yield [test, spread, name, *np.mean(values, axis=0).tolist()]


if __name__ == "__main__":
    raise SystemExit(main())
