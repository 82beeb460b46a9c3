"""Max-margin training, and StructuredSVM: rankers for AUC, MAP, nDCG, MRR, DORM, or several at once.

    minimise  ½‖w‖² + (C/|Q|) Σ_q μ_q H_q(w)

`C` is the papers' C: the hinges are averaged over the queries that have something to order. Weights given to ``fit``
have a mean of 1 over these queries. With the ramp bound R_q in place of H_q: `rankwright.maxmargin.ramp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData, some_queries
from rankwright.data.order import query_chunks, share_reordered
from rankwright.data.places import place_of
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.maxmargin.cost import CostPath, CostRanker, cost
from rankwright.maxmargin.losses import Loss, Target, TrainingSet, grades_of, pair_target, parse_losses, weight_table
from rankwright.maxmargin.problem import (
    BUNDLE,
    DESCENT,
    HINGE,
    N_SLACK,
    RAMP,
    RAMP_GRID,
    SOLVERS,
    Problem,
    SolverSettings,
    solve_once,
)
from rankwright.measures import Measure, Rankings
from rankwright.models.linear import LinearModel
from rankwright.rankers.base import Task
from rankwright.rankers.cross_validation import CrossValidation, Folds, best_beyond_first, query_values
from rankwright.rankers.facts import Certificate, Kind, Notice, Outcome, Proof
from rankwright.rankers.parameters import (
    FLAG,
    FOR_PYTHON,
    LINEAR,
    NONE,
    POSITIVE,
    POSITIVES,
    Option,
    Rule,
    common,
    integer,
    is_list,
    one_of,
    parameter,
)
from rankwright.rankers.weights import Weights

if TYPE_CHECKING:
    from rankwright.maxmargin.bundle import Check, Solution
    from rankwright.maxmargin.start import RampStart

__all__ = ["StructuredSVM"]

_LOSSES = Rule("a name such as 'map', or several", lambda value: isinstance(value, str | Measure) or is_list(value))
_NAME = Rule("a name", lambda value: isinstance(value, str))
_PER_LOSS = Rule(
    "one per loss", lambda value: is_list(value) and all(part is None or isinstance(part, str) for part in value)
)
_RELEVANT_FROM = Option(LINEAR, "Lowest relevant label.", after="C_grid", metavar="LABEL")
_STANDARDIZE = Option(LINEAR, "Train on the raw features, as the papers do.", after="relevant_from")
_BOUND = Option(
    LINEAR,
    "hinge: the papers' convex problem; ramp: closer to the measure, from the weights of svm-map on.",
    after="start",
    default="hinge for svm-map, svm-auc and svm-ndcg-nc, ramp for the others",
)
_LOSSES_OPTION = Option(
    LINEAR,
    "svm-combo: the losses to train for at once.",
    after="bound",
    metavar="map,dorm@10",
    read=lambda text: [part.strip() for part in text.split(",") if part.strip()],
    alone=True,
)
_LOSS_WEIGHTS = Option(
    LINEAR,
    "svm-combo: a weight for each loss; auto: those that are best on --valid, or on a fifth of the queries.",
    after="losses",
    default="1",
    metavar="1,0.5|auto",
)
_SHARES = (4.0, 0.25)  # of the weights of other losses
_SLACK = Option(LINEAR, "svm-combo: sum the losses, or take the largest.", after="loss_weights")
_FEATURE_MAP = Option(
    LINEAR,
    "Feature map of a ranking: po or mrr for svm-mrr; dorm:log2, dorm:sqrt, dorm:sqrt@30 … for dorm; for svm-combo one "
    "per loss, - for the default.",
    after="slack",
    metavar="MAP",
)
_TOL = Option(
    LINEAR, "Stop when the objective is proved to be this close to the optimum (0.0001 is 0.01 %).", after="lam"
)
_SOLVER = Option(
    LINEAR,
    "bundle and one-slack-cutting-plane find the same model; n-slack-cutting-plane is Algorithm 1 of SIGIR'07, which "
    "stops by --epsilon; gd, for rank-svm and rsvm-ir, is gradient descent.",
    after="max_passes",
)
_EPSILON = Option(
    LINEAR, "--solver n-slack-cutting-plane: largest violation of a constraint at which it stops.", after="solver"
)


@dataclass(eq=False, repr=False, kw_only=True)
class MaxMarginRanker(CostRanker):
    """The certificate; subclasses say what the labels mean and which oracle to use."""

    tol: float = parameter(1e-4, POSITIVE, option=_TOL)
    max_passes: int = parameter(200, integer(1), option=Option(LINEAR, "Passes over the data, per C.", after="tol"))
    standardize: bool = parameter(True, FLAG, option=_STANDARDIZE)
    solver: str = parameter(BUNDLE, one_of(*SOLVERS), option=_SOLVER)
    epsilon: float = parameter(0.01, POSITIVE, option=_EPSILON)
    warm_start: bool = parameter(False, FLAG, instead=FOR_PYTHON)
    n_jobs: int | None = common("n_jobs")
    device: str = common("device")
    callback: Callable[[Check], Any] | None = common("callback")

    _works_on_partitions: ClassVar[bool] = True
    _tries_others = True  # whether other losses are tried on the data where this one learns nothing
    _proves = True  # whether the measure on the training queries is asked for

    def _path(self, task: Task) -> CostPath:
        initial = self._initial(task.data)
        return Problem(self._training_set(task), self._settings(), initial)

    def warm_up(self, data: RankingData) -> None:
        """Do one pass over the data and forget it, so that code is compiled; every query must have an order."""
        settings = replace(self._settings(), solver=DESCENT, max_passes=1)  # which needs no problem over planes
        solve_once(TrainingSet(data, self._targets(data), np.ones(data.n_queries)), settings)

    def _training_set(self, task: Task) -> TrainingSet:
        """The queries with something to learn from; kept with the task."""
        kept: TrainingSet | None = vars(task).get("_training_set")
        if kept is None:
            targets = self._targets(task.data, task.weights.winning)
            kept = vars(task)["_training_set"] = TrainingSet(task.data, targets, task.weights.queries).of(task.useful)
        return kept

    def _train(self, task: Task) -> Outcome:
        outcome = super()._train(task)
        notice = None if outcome.interrupted else self._no_better(task)
        self._useless = None if notice is None else notice.text
        assert outcome.certificate is not None
        self.proof_ = None if outcome.interrupted or not self._proves else self._prove(task)
        certificate = replace(outcome.certificate, bound=self._bound(), proof=self.proof_, **self._started(task))
        notices = outcome.notices if notice is None else (notice, *outcome.notices)
        return replace(outcome, notices=notices, certificate=certificate)

    def _started(self, task: Task) -> dict[str, Any]:
        """What the certificate says of a training that started from the weights of another one."""
        return {}

    def _bound(self) -> str:
        return HINGE

    def _prove(self, task: Task) -> Proof | None:
        slack = next(row["slack"] for row in self.C_path_ if row["C"] == self.C_)
        shared = getattr(self, "slack", "separate") == "shared"
        return _prove(self._training_set(task), self.coef_, slack, shared=shared, device=self.device)

    def _no_better(self, task: Task) -> Notice | None:
        """The notice that the weights are no better than 0, if so; None if another C on the path did learn."""
        crossed = () if task.choice is None else task.choice.figures
        if not all(_is_useless(row) for row in (*self.C_path_, *crossed)):
            return None
        row = next(row for row in self.C_path_ if row["C"] == self.C_)
        values: dict[str, Any] = {name: float(row[name]) for name in ("C", "slack_ratio", "objective_ratio")}
        values |= {"open": self.gap_ > _OPEN, "larger": None, "learn": [], "fail": []}
        if self._tries_others and not values["open"]:
            settings = self._settings()
            C = max(10.0, 100.0 * max(row["C"] for row in (*self.C_path_, *crossed)))
            values["larger"] = _can_learn(self._training_set(task), settings, C)
            if not values["larger"]:
                weights, relevant_from = task.weights.queries, getattr(self, "relevant_from", 1)
                tried = _learners(task.data, weights, settings, relevant_from, self.method_name())
                values["learn"], values["fail"] = tried
        return Notice(Kind.NO_BETTER_THAN_ZERO, useless_words(values), values)

    def _settings(self) -> SolverSettings:
        rules = self.solver, self.tol, self.max_passes, self.standardize, self.epsilon
        threads = threads_of(self.n_jobs)
        return SolverSettings(*rules, threads=threads, callback=self.callback, device=self.device)

    def _learn_nothing(self, task: Task) -> Outcome:
        self._useless = self.proof_ = None
        self._initial(task.data)
        self._targets(task.data)
        return super()._learn_nothing(task)

    def _initial(self, data: RankingData) -> Array | None:
        coef = getattr(self, "_initial_coef", None)
        self._initial_coef = None
        if coef is None and self.warm_start:
            coef = getattr(self, "coef_", None)
        if coef is not None and len(coef) != data.n_features:
            raise InputError(f"{data.n_features} features but a starting model of {len(coef)}")
        return coef

    def _targets(self, data: RankingData, winning: Array | None = None) -> Sequence[Target]:
        """What every loss makes of the labels, and of factors for the pairs that a document should win."""
        raise NotImplementedError

    def _keep(self, solution: Solution | None, interrupted: bool) -> Outcome:
        self.objective_, self.gap_ = (0.0, 0.0) if solution is None else (solution.objective, solution.gap)
        self.path_ = () if solution is None else solution.path
        self.n_passes_ = len(self.path_)
        self.n_passes_total_ = int(sum(row["passes"] for row in self.C_path_))
        reached = bool(self.gap_ <= self.tol or (solution is not None and solution.converged))
        proof = (self.objective_, self.gap_, self.n_passes_, self.n_passes_total_, reached)
        certificate = Certificate(*proof, constraints=None if solution is None else solution.constraints)
        notice = self._notice(solution, interrupted)
        return Outcome(notices=() if notice is None else (notice,), certificate=certificate)

    def _notice(self, solution: Solution | None, interrupted: bool) -> Notice | None:
        if interrupted:
            text = f"training was interrupted; the model is the best so far, within {self.gap_:.2g} of the optimum"
            return Notice(Kind.INTERRUPTED, text, {"gap": self.gap_})
        if solution is None or self.gap_ <= self.tol or solution.converged:
            return None
        if not solution.stalled and self.n_passes_ < self.max_passes:
            return None  # stopped by the callback
        where = f"after {self.n_passes_} passes" if solution.stalled else f"at max_passes={self.max_passes}"
        lower = "no weights can lower what training minimises by more than"
        last = " in its last round" if self._bound() == RAMP else ""
        text = f"stopped {where} with a gap of {self.gap_:.2g}: {lower} {100 * self.gap_:.2g} %{last}"
        if self.solver == N_SLACK:
            text = f"{text}, and epsilon={self.epsilon:g} was not reached"
            return Notice(Kind.NOT_CONVERGED, text, {"gap": self.gap_, "epsilon": self.epsilon})
        text = f"{text}; tol={self.tol:g} was not reached"
        values = {"max_passes": self.max_passes, "passes": self.n_passes_, "stalled": solution.stalled}
        return Notice(Kind.NOT_CONVERGED, text, values | {"gap": self.gap_, "tol": self.tol})

    def _training_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"C": self.C_, "objective": self.objective_, "gap": self.gap_, "passes": self.n_passes_}
        if self.proof_ is not None:
            proved = {"of": self.proof_.measure, "training": self.proof_.value, "proved": self.proof_.at_least}
            facts |= {"bound": self._bound()} | proved
        useless = {} if self._useless is None else {"no_better_than_zero": self._useless}
        return facts | super()._training_facts() | useless


@dataclass(eq=False, repr=False)
class StructuredSVM(MaxMarginRanker):
    """Structured SVM: trained directly for a ranking measure, with a duality gap as proof of optimality.

    Parameters
    ----------
    loss : str or Measure, or several
        ``"map"`` (SVMmap), ``"auc"`` (SVMauc), ``"ndcg@10"`` (SVMndcg), ``"ndcg"`` (no clip), ``"mrr@10"`` (SVMmrr),
        ``"dorm@10"`` (DORM: nDCG of the grades with weights for positions). A list optimises all at once (SVMcombo).
    C : float or "auto"
        Weight of the losses against ½‖w‖²: the papers' C, with losses averaged over queries. With the ramp bound it is
        relative, and weighs the loss against leaving the start: 1 suits any data. ``"auto"`` chooses from ``C_grid`` on
        ``eval_set``, or by cross-validation; with the ramp bound it also chooses what it starts from.
    relevant_from : float
        Lowest label that counts as relevant (DORM uses the grades themselves).
    bound : {"auto", "ramp", "hinge"}
        What is minimised in place of the loss. ``"hinge"``: the papers' convex problem, which compares every ranking
        with an ideal one; proved to be near its optimum. ``"ramp"``: compares with the ranking that the weights make.
        Tighter, not convex; lowered in rounds of convex problems, and pulled to its start instead of 0: the weights of
        an SVMmap, moved by epochs of linear LambdaRank for the measure (for RR and for several losses nDCG@10).
        ``"auto"``: the hinge for AP, AUC and nDCG without cutoff; the ramp for all others and for several losses,
        where the hinge often learns nothing.
    max_rounds : int
        Rounds of the ramp bound, at most; they end when one lowers the objective by less than ``tol``. More of them
        lower the bound further, but do not raise the measure on test queries.
    feature_map : str, optional
        Description of a ranking, where there is a choice: ``"po"`` or ``"mrr"`` for MRR, ``"po"`` or ``"dorm"``
        for nDCG. ``"dorm:sqrt"`` and ``"dorm:log2"`` (the default decay) weight position r by 1/√(1+r) and
        1/log2(2+r); ``"dorm:sqrt@30"`` ends after 30 ranks. With several losses: a list, None where there is no choice.
    loss_weights : sequence of float or "auto", optional
        Weight of each of several losses; default: all 1. ``"auto"``: also tries four times and a quarter of that for
        each loss, and takes what is clearly best by the mean of the losses' measures, on ``eval_set`` or on a fifth of
        the queries, which is held out for that.
    slack : {"separate", "shared"}
        Several losses: add up a query's hinges, or take the largest one.
    tol : float
        Relative duality gap at which training stops.
    max_passes : int
        Most passes over the data; training then stops with a warning.
    standardize : bool
        Divide features by their standard deviation, folded back into ``coef_``. (Means cancel.) False solves
        exactly the papers' problem, on the raw features.
    solver : {"bundle", "one-slack-cutting-plane", "n-slack-cutting-plane"}
        The default; the 1-slack cutting plane of later papers; Algorithm 1 of SIGIR'07 as it stands, which takes the
        queries one by one. Same objective; the first two stop at the same certificate, the last by ``epsilon``.
    epsilon : float
        Algorithm 1's ε (``solver="n-slack-cutting-plane"`` only, which has no use for ``tol``): it stops when no
        ranking violates its constraint by more, which puts the objective within C·ε of the optimum. The paper names no
        value.
    C_grid : sequence of float, optional
        Values for ``C="auto"``; default: powers of ten from 1e-4 to 1e3, for the ramp bound 1 alone.
    eval_measure : str or Measure, optional
        Measure to choose C by; default: that of the (first) loss, with labels from ``relevant_from`` on as relevant.
    cv : int or "auto", optional
        Folds of queries: without ``eval_set``, ``C="auto"`` chooses by cross-validation, then trains on all queries.
        ``"auto"``, and the default for ``C="auto"``: 5 folds, of which one alone is held out from 500 queries on. For
        a given C, cross-validation only estimates how good it is.
    warm_start : bool
        Start from the previous fit's ``coef_``.
    n_jobs : int, optional
        Threads; default 1, -1 for all cores. The model does not depend on it.
    device : {"cpu", "cuda"}
        Where passes over the data are done; ``"cuda"``: on an NVIDIA GPU, see the page On a GPU.
    callback : callable, optional
        Called with a :class:`~rankwright.maxmargin.bundle.Check` after every pass; returning True stops training.

    Attributes
    ----------
    coef_ : ndarray
        Weights of the raw features; scores are ``X @ coef_``.
    objective_, gap_ : float
        Objective of the solved problem, and the most by which it can exceed the optimum, relative; with the ramp bound,
        the optimum of the last round's convex problem.
    proof_ : Proof
        The measure on the training queries, and what the bound proves it to be at least.
    start_ : ranker or None
        The ranker whose weights the ramp bound started from: ``convex``, moved by ``epochs_`` epochs of LambdaRank (the
        mean over them).
    rounds_ : tuple of RampRound
        Objective, gap and passes of every round of the ramp bound.
    n_passes_ : int
        Passes over the data.
    path_ : tuple of Check
        Passes, primal, dual, gap and seconds after each pass.
    loss_weights_ : tuple of float
        With ``loss_weights="auto"``: the weights chosen.
    C_, C_path_
        The C used, and one row for each C tried: the value on ``eval_set``, if given, under the name of the measure;
        ``objective``, ``gap``, ``passes``; ``norm`` (‖w‖ of the solved problem), ``slack`` (average hinge), and
        ``slack_ratio``, ``objective_ratio``: relative to weights of 0. After cross-validation, of the last training
        alone.
    cv_ : CrossValidation or None
        What cross-validation found: its honest estimate ``value``, and out-of-fold ``scores``.
    n_queries_, n_queries_skipped_ : int
        Queries trained on, and queries skipped because they have no order to learn.
    training_ : Fitted
        All facts of the training, as :meth:`fit_data` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> X, y, qid = np.array([[1.0, 0], [0, 1], [2, 1], [0, 0]]), [1, 0, 1, 0], ["a", "a", "b", "b"]
    >>> ranker = StructuredSVM(loss="map", C=10).fit(X, y, qid)
    >>> bool(ranker.gap_ <= 1e-3), ranker.predict(X).argmax()
    (True, np.int64(2))
    """

    loss: str | Measure | Sequence[str | Measure] = parameter(
        "map", _LOSSES, option=_LOSSES_OPTION, instead="it follows from the method; svm-combo has losses"
    )
    C: float | str = cost()
    _: KW_ONLY
    relevant_from: float = parameter(1, POSITIVE, option=_RELEVANT_FROM)
    bound: str = parameter("auto", one_of("auto", RAMP, HINGE), option=_BOUND)
    max_rounds: int = parameter(5, integer(1))
    feature_map: str | Sequence[str | None] | None = parameter(None, _NAME, _PER_LOSS, NONE, option=_FEATURE_MAP)
    loss_weights: Sequence[float] | str | None = parameter(None, POSITIVES, one_of("auto"), NONE, option=_LOSS_WEIGHTS)
    slack: str = parameter("separate", one_of("separate", "shared"), option=_SLACK)

    _start_loss: ClassVar[str] = "map"  # the ramp bound was studied with other values of these
    _pulled_to_start: ClassVar[bool] = True

    def _check_together(self) -> None:
        for loss in self._losses():
            loss.measure.oracle(loss.feature_map)
        if self.solver == N_SLACK and self._bound() == RAMP:
            raise InputError(f"solver {N_SLACK!r} minimises the hinge; expected bound='hinge', or another solver")

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        losses = self._losses()
        return losses[0].method if len(losses) == 1 else "svm-combo"

    def _losses(self) -> list[Loss]:
        """The losses, parsed once for the parameters that they come from."""
        weights = getattr(self, "loss_weights_", None) if isinstance(self.loss_weights, str) else self.loss_weights
        parameters = (self.loss, self.feature_map, weights)
        key = repr(parameters)
        parsed, losses = getattr(self, "_parsed", ("", []))
        if parsed != key:
            losses = parse_losses(*parameters)
            self._parsed = key, losses
        return losses

    def _choose(
        self, data: RankingData, weights: Weights, valid: RankingData | None
    ) -> tuple[CrossValidation | None, tuple[Notice, ...]]:
        if self.loss_weights == "auto":
            self.loss_weights_: tuple[float, ...] | None = None
            self.loss_weights_ = self._best_weights(data, weights, valid)
        return super()._choose(data, weights, valid)

    def _best_weights(self, data: RankingData, weights: Weights, valid: RankingData | None) -> tuple[float, ...]:
        """Weights of the losses, by the mean of their measures on validation data or a fold; all from one start."""
        losses = self._losses()
        equal = (1.0,) * len(losses)
        if valid is None:
            folds = Folds.draw(data, useful=self._useful(data))
            if folds is None:
                return equal
            valid = some_queries(data, folds.of_query == 0)
            data, weights = weights.of(folds.trained_on(0), data)
        measures = [loss.measure.with_relevant_from(self.relevant_from) for loss in losses]
        values_of = [query_values(valid, measure) for measure in measures]
        others = [
            [share if at == number else 1.0 for number in range(len(losses))]
            for share in _SHARES
            for at in range(len(losses))
        ]
        tried = [equal, *map(tuple, others)]
        rows, first = [], None
        for loss_weights in tried if len(losses) > 1 else tried[:1]:
            ranker = self._for_fold(0).set_params(loss_weights=loss_weights, callback=None)
            if first is None:
                first = ranker
            else:
                ranker.set_params(C=first.C_).start_from(first.coef_ if first.start_ is None else first.start_.coef_)
            ranker.fit_data(data, valid, weights=weights.queries)
            scores = place_of(valid).scores(ranker.model_)
            rows.append(np.mean([values(scores) for values in values_of], axis=0))
        best = tried[best_beyond_first(np.array(rows))]
        return tuple(weight * len(best) / sum(best) for weight in best)

    def _bound(self) -> str:
        if self.bound != "auto" or self.solver == N_SLACK:  # Algorithm 1 is for the papers' problem
            return HINGE if self.bound == "auto" else self.bound
        losses = self._losses()
        learns = len(losses) == 1 and losses[0].measure.oracle(losses[0].feature_map).hinge_learns
        return HINGE if learns else RAMP

    def default_grid(self) -> Sequence[float]:
        """The values that ``C="auto"`` tries unless ``C_grid`` is given."""
        return super().default_grid() if self._bound() == HINGE else RAMP_GRID

    def costs(self) -> tuple[float, ...]:
        """The C of every fit that a training consists of, in order."""
        start = () if self._bound() == HINGE else self._starter().convex.costs()
        return (*start, *super().costs())

    def _settings(self) -> SolverSettings:
        return replace(super()._settings(), slack=self.slack)

    def _path(self, task: Task) -> CostPath:
        self.start_ = None
        if self._bound() == HINGE:
            return super()._path(task)
        from rankwright.maxmargin.ramp import RampProblem, StartOnly  # here because it loads numba

        start, training = self._initial(task.data), self._training_set(task)
        if start is None:
            starter = self._starter()
            if starter.convex._useful(training.data).any():
                weights = training.weights if np.ptp(training.weights) else None
                choice = None if task.choice is None else task.choice.start
                starter.fit_data(training.data, task.valid, weights=weights, choice=choice)
                self.start_, start = starter, starter.coef_
                if starter.training_.interrupted:
                    return StartOnly(starter.convex)
            else:  # grades, but all documents of a query are relevant, or none
                start = _learn_pairs(task.data, task.weights.queries, self._settings())
        pulled = self._pulled_to_start
        return RampProblem(training, self._settings(), start, max_rounds=self.max_rounds, pulled_to_start=pulled)

    def _started(self, task: Task) -> dict[str, Any]:
        if self.start_ is None:
            return {"start": None, "convex_rounds": len(self.rounds_)}
        convex, epochs = self.start_.convex, self.start_.epochs_
        start = f"{convex.method_name()} with C = {convex.C_:g}"
        if epochs:
            start += f" and {epochs} epochs of LambdaRank for {self.start_.measure}"
        place = place_of(task.data)
        before, after = (place.scores(self._model_of(coef)) for coef in (convex.coef_, self.coef_))
        reordered = share_reordered(before, after, task.data.indptr)
        return {"start": start, "convex_rounds": len(self.rounds_), "reordered": reordered}

    def _starter(self) -> RampStart:
        """A ranker whose weights are a good start: those of a convex one that learns from nearly all data, moved."""
        from rankwright.maxmargin.start import RampStart  # here because it loads nets

        kept = {
            name: getattr(self, name)
            for name in ("relevant_from", "tol", "max_passes", "standardize", "n_jobs", "device")
        }
        C = "auto" if self.C == "auto" else 1.0
        convex = StructuredSVM(self._start_loss, C, bound=HINGE, callback=self.callback, **kept)
        convex._tries_others, convex._proves = self._tries_others, False
        losses = self._losses()
        rough = [not loss.measure.oracle(loss.feature_map).hinge_learns for loss in losses]
        measures = [loss.measure.with_relevant_from(self.relevant_from) for loss in losses]
        smooth = losses[rough.index(True) if any(rough) else 0].measure.smoother()
        start = RampStart(smooth.with_relevant_from(self.relevant_from), hidden=0, n_jobs=self.n_jobs)
        start.set_params(standardize=self.standardize, eval_measure=measures[0] if len(losses) == 1 else None)
        return start.after(convex, measures)

    def _start_to_cross(self, data: RankingData) -> RampStart | None:
        if self._bound() == HINGE or self.C != "auto":
            return None
        return self._starter()

    def _no_better(self, task: Task) -> Notice | None:
        if self._bound() == HINGE:
            return super()._no_better(task)
        if self.start_ is None or min(row["slack_ratio"] for row in self.C_path_) < USELESS:
            return None
        notices = self.start_.convex.training_.notices
        return next((notice for notice in notices if notice.kind is Kind.NO_BETTER_THAN_ZERO), None)

    def _keep(self, solution: Solution | None, interrupted: bool) -> Outcome:
        self.rounds_ = () if solution is None else solution.rounds
        outcome = super()._keep(solution, interrupted)
        if self.start_ is None or outcome.certificate is None:
            return outcome
        self.n_passes_total_ += self.start_.convex.n_passes_total_
        return replace(outcome, certificate=replace(outcome.certificate, passes_total=self.n_passes_total_))

    def _training_facts(self) -> dict[str, Any]:
        learnt = self.loss_weights_ if isinstance(self.loss_weights, str) else None
        return super()._training_facts() | ({} if learnt is None else {"loss_weights": list(learnt)})

    def _learn_nothing(self, task: Task) -> Outcome:
        self.start_ = None
        return super()._learn_nothing(task)

    def _targets(self, data: RankingData, winning: Array | None = None) -> Sequence[Target]:
        return [loss.target(data, self.relevant_from) for loss in self._losses()]

    def _useful(self, data: RankingData) -> Array:
        return np.any([loss.useful(data, self.relevant_from) for loss in self._losses()], axis=0)

    def _own_measure(self) -> Measure:
        return self._losses()[0].measure.with_relevant_from(self.relevant_from)


# What a bound on the loss proves of the measure itself, on the training queries.
#
#     mean Δ(ŷ) ≤ mean bound,   so   mean measure ≥ 1 − mean bound
#
# Hinge and ramp both lie above the loss of the ranking that the weights make, however ties in it are broken. The
# measure is that of the labels as training sees them: relevant or not, unless the loss uses the grades.

_RANKED_AT_ONCE = 1 << 16  # documents whose measure is computed at a time


def _prove(training: TrainingSet, coef: Array, slack: float, *, shared: bool, device: str) -> Proof | None:
    """The mean of the measure on the training queries, and what is proved of it; None without a measure.

    `coef`: weights of the raw features. `slack`: the bound, (1/|Q|) Σ_q Σ_l c_l μ_q R_q, as training reports it.
    `shared`: whether the largest of several losses counts, not their sum. `device`: where documents are ranked.
    """
    data, targets, weights = training.data, training.targets, training.weights
    if any(target.measure is None for target in targets):
        return None
    order_of = place_of(data, device).orders(LinearModel(coef, data.feature_names))
    costs = np.array([target.weight * weights * target.useful for target in targets])
    losses = np.zeros_like(costs)
    for first, last in query_chunks(data.indptr, _RANKED_AT_ONCE):
        docs = slice(data.indptr[first], data.indptr[last])
        indptr = data.indptr[first : last + 1] - data.indptr[first]
        order = order_of(docs, indptr)
        for row, target in enumerate(targets):
            assert target.measure is not None
            judged = Rankings(target.labels[docs], indptr)
            values = target.measure.resolve("letor").value(Rankings(judged.labels[order], indptr, judged))
            losses[row, first:last] = np.where(target.useful[first:last], 1.0 - values, 0.0)
    together = np.max if shared else np.sum
    total, lost = float(together(costs, axis=0).sum()), float(together(costs * losses, axis=0).sum())
    names = [_measure_name(target, data.labels) for target in targets]
    named = names[0] if len(names) == 1 else f"{'lowest' if shared else 'mean'} of {', '.join(names)}"
    return Proof(named, 1.0 - lost / total, max(0.0, 1.0 - slack * data.n_queries / total))


def _measure_name(target: Target, labels: Array) -> str:
    """The measure, and whether grades count in it that training does not see."""
    assert target.measure is not None
    measure = target.measure.resolve("letor")
    seen = np.array_equal(measure.worth(target.labels), measure.worth(labels))
    return f"{target.measure}{'' if seen else ' of 0/1 labels'}"


# Whether max-margin weights are any better than weights of 0, and what does learn from the data where they are not.
#
# Some hinges cannot be lowered on some data: the most violated ranking is as bad for all weights as it is for none.
# Their optimum is proved all the same, and useless. Slack and objective, relative to weights of 0, show it. Whether a
# larger C, or another loss, would do better is tried out: training for a few passes, until the objective is 2 %
# lower.


_LEARNT = 0.98
_PASSES = 8
_TRIED_LOSSES = {"svm-map": "map", "svm-ndcg-nc": "ndcg"}
USELESS = 0.99  # of the slack, or of the objective, at weights of 0
_OPEN = 0.01  # a gap above this leaves open how good weights can be


def _is_useless(figures: Mapping[str, float]) -> bool:
    """Whether slack or objective, in a row of ``C_path_``, is within 1 % of that at weights of 0."""
    return max(figures["slack_ratio"], figures["objective_ratio"]) >= USELESS


def _can_learn(training: TrainingSet, settings: SolverSettings, C: float) -> bool:
    """Whether a few passes lower the objective by 2 %."""
    at_zero: list[float] = []

    def falls(check: Check) -> bool:
        at_zero.append(check.primal)
        return check.primal < _LEARNT * at_zero[0]

    settings = replace(settings, solver=BUNDLE, max_passes=_PASSES, callback=falls)
    return bool(solve_once(training, settings, C).figures["objective_ratio"] < _LEARNT)


def _learners(
    data: RankingData, weights: Array, settings: SolverSettings, relevant_from: float, but: str
) -> tuple[list[str], list[str]]:
    """The methods that learn from the data, and those that were tried and do not; ``but`` is left out."""
    methods: tuple[list[str], list[str]] = [], []
    targets = {name: parse_losses(loss)[0].target(data, relevant_from) for name, loss in _TRIED_LOSSES.items()}
    for method, target in (targets | {"rank-svm": _pairs(data)}).items():
        useful = target.useful & (weights > 0)
        if method != but and useful.any():
            training = TrainingSet(data, [target], weights).of(useful)
            C = _C_of_pairs(data) if method == "rank-svm" else 1.0
            learns = _can_learn(training, replace(settings, slack="separate"), C)
            methods[0 if learns else 1].append(method)
    return methods


def _pairs(data: RankingData) -> Target:
    """What Ranking SVM is trained for."""
    values, grades = grades_of(data)
    return pair_target(grades, data.has_order, weight_table(values, None))


def _C_of_pairs(data: RankingData) -> float:
    """A C for hinges that are summed over pairs."""
    return 10.0 / float(np.mean(data.sizes.astype(np.float64) ** 2))


def _learn_pairs(data: RankingData, weights: Array, settings: SolverSettings) -> Array:
    """The weights of a Ranking SVM, where no query has both relevant and other documents."""
    target = _pairs(data)
    training = TrainingSet(data, [target], weights).of(target.useful)
    return solve_once(training, settings, _C_of_pairs(data)).coef


def useless_words(values: Mapping[str, Any], C: str = "C") -> str:
    """What the notice of useless weights says, from its ``values``; ``C`` is what C is called.

    `larger`: whether a larger C lowers the objective; None if unknown. `learn`, `fail`: methods that were tried.
    """
    share = f"{100 * max(values['slack_ratio'], values['objective_ratio']):.1f} %"
    loss = f"its loss is {share} of an untrained model's, whose weights are all 0"
    if values["open"]:
        return f"training ended before the model learnt anything: {loss}"
    if values["larger"]:
        return f"the model learnt next to nothing with C = {values['C']:g}: {loss}. A larger {C} lowers it"
    text = f"the model learnt nothing: {loss}"
    if values["larger"] is not None:
        text += f", and a larger {C} does not change that"
    learn, fail = values["learn"], values["fail"]
    if learn:
        text += f". {_listed(learn)} {'does' if len(learn) == 1 else 'do'} learn from this data"
    elif fail:
        text += f". {_listed(fail)} {'does' if len(fail) == 1 else 'do'} not learn from this data either"
    return text


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
