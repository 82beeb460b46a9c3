"""One judge at work: what comes next, what was judged, and files that are right at every moment."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwright.errors import InputError
from rankwright.judging.pool import JudgingPool, planned, shuffled_queries
from rankwright.judging.records import Action, JudgeFile, JudgeState, Pair, check_folder, judge_path, update_qrels
from rankwright.judging.stopping import Decision, Sequential


class Stale(InputError):
    """Raised for an action that was meant for another state of the session, as from a page that is open twice."""


@dataclass(frozen=True)
class JudgingPlan:
    """What to judge, and when to stop.

    `pool`: the documents. `order`: see :func:`~rankwright.judging.pool.planned`. `seed`: of the random orders.
    `compare`: two rankers; judging may stop once one is known to be better. `cutoff`: of the nDCG@k by which they are
    compared.
    """

    pool: JudgingPool
    order: str = "depth"
    seed: int = 0
    compare: tuple[str, str] | None = None
    cutoff: int = 10


class Session:
    """A judge's session; its methods may be called from several threads.

    `folder`: where judgements are kept; a new folder is created. `judge`: name of the judge. `plan`: what to judge.
    `pairs`: everything that can be judged, in the order of judging. `judged`: what this judge has judged.
    """

    def __init__(self, folder: str | Path, judge: str, plan: JudgingPlan) -> None:
        self.folder, self.judge, self.plan = Path(folder), judge, plan
        path = judge_path(folder, judge)
        check_folder(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", self.folder) from None
        self._file = JudgeFile(path)
        self.cut = self._file.cut
        self._lock = threading.Lock()
        self.pairs = planned(plan.pool, plan.order, plan.seed)
        self._pool = set(self.pairs)
        self.judged = JudgeState.of(self._file.actions)
        self._test: Sequential | None = None
        if plan.compare is not None:
            queries = shuffled_queries(plan.pool, plan.seed)
            self._test = Sequential(plan.pool, plan.compare, queries, self._grade, plan.cutoff)
        self._goes_on = False  # after a decision
        try:
            update_qrels(folder, judge, self.judged)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def state(self) -> dict[str, Any]:
        """What comes next, and how far the session is: values of JSON, without a word on rankers but a decision."""
        with self._lock:
            return self._state()

    def act(self, seen: int, action: Action) -> dict[str, Any]:
        """Keep an action, and return what comes next.

        `seen`: the number of actions that the caller knows of; another one is an error. `action`: what was done.
        """
        with self._lock:
            if seen != len(self._file.actions):
                raise Stale("this page is not up to date: something was judged elsewhere; it shows what comes now")
            if action.pair not in self._pool:
                raise InputError("this document is not in the pool of the query")
            if action.action == "undo" and action.pair != self.judged.last:
                raise InputError("there is nothing to undo")
            self.judged.add(self._file.append(action))
            if action.action != "note":
                if self._test is not None:
                    self._test.update(action.query)
                try:
                    update_qrels(self.folder, self.judge, self.judged)
                except (InputError, OSError) as error:
                    reason = error.message if isinstance(error, InputError) else error.strerror
                    raise Stale(f"the judgement is kept, but the qrels could not be written: {reason}") from None
            return self._state(back=action.pair if action.action in ("undo", "note") else None)

    def go_on(self) -> dict[str, Any]:
        with self._lock:
            self._goes_on = True
            return self._state()

    def decision(self) -> Decision | None:
        """The state of the comparison of two rankers by this judge's grades."""
        return None if self._test is None else self._test.decision()

    def _grade(self, query: str, document: str) -> float | None:
        """A grade; what the judge cannot tell counts 0, as in an evaluation; what may still come is None."""
        pair = query, document
        return 0.0 if self.judged.open.get(pair) == "cannot tell" else self.judged.grades.get(pair)

    def _next(self) -> Pair | None:
        """The first document not looked at; then the first that was skipped."""
        judged = self.judged
        fresh = (pair for pair in self.pairs if pair not in judged.grades and pair not in judged.open)
        skipped = (pair for pair, action in judged.open.items() if action == "skip" and pair in self._pool)
        return next(fresh, next(skipped, None))

    def _state(self, back: Pair | None = None) -> dict[str, Any]:
        decision = self.decision()
        decided = decision is not None and decision.better is not None
        pair = back or (None if decided and not self._goes_on else self._next())
        state: dict[str, Any] = {"judge": self.judge, "seen": len(self._file.actions), "progress": self._progress(pair)}
        state["can_undo"] = self.judged.last in self._pool
        state["undo"] = self.judged.last if state["can_undo"] else None
        state["decision"] = None if decision is None else _decision_facts(decision, self.plan)
        state["next"] = pair
        if pair is not None:
            state["note"] = self.judged.notes.get(pair, "")
            state["was"] = self.judged.grades.get(pair, self.judged.open.get(pair))
        return state

    def _progress(self, pair: Pair | None) -> dict[str, int]:
        """How many documents are done: in total, and of the query on the page."""
        judged = self.judged
        done = {pooled for pooled in self._pool if pooled in judged.grades or pooled in judged.open}
        skipped = sum(judged.open.get(pooled) == "skip" for pooled in self._pool)
        progress = {"done": len(done), "of": len(self._pool), "skipped": skipped}
        if pair is not None:
            progress["query_of"] = len(self.plan.pool.documents(pair[0]))
            progress["query_done"] = sum(query == pair[0] for query, _ in done)
        return progress


def _decision_facts(decision: Decision, plan: JudgingPlan) -> Mapping[str, Any]:
    """A decision for the page, which does not say who is ahead until it is decided."""
    others = (name for name in plan.compare or () if name != decision.better)
    return {
        "better": decision.better,
        "other": None if decision.better is None else next(others),
        "measure": f"nDCG@{plan.cutoff}",
        "queries": decision.queries,
        "capital": round(max(decision.capital), 2),
        "needed": decision.needed,
    }
