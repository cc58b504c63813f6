"""The figures of every row at every place, and what may be said of them.

A place is a decoding, with the problem set where that is not the runs' own held-out problems.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import numpy as np

from rlzoo.comparing.eval_history import Area
from rlzoo.comparing.grid import Identity
from rlzoo.config.decoding import Decoding
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.statistics.aggregates import macro_problems, macro_values, pass_at_k, powers_of_two
from rlzoo.statistics.differences import RunScores
from rlzoo.statistics.family import Measure
from rlzoo.statistics.intervals import Estimate
from rlzoo.statistics.verdicts import Difference, Measured, Verdicts, judge

Interval = TypeVar("Interval", bound=Estimate)
MACRO = "macro average"
"""All problem sets together, each counting the same."""


@dataclass(frozen=True)
class SetDecoding(Decoding):
    """A decoding with the problem set that it was evaluated on."""

    problem_set: str = ""

    @classmethod
    def of(cls, problem_set: str, decoding: Decoding) -> "SetDecoding":
        """A problem set with a decoding."""
        return cls(**{**vars(decoding), "problem_set": problem_set})

    @property
    def alone(self) -> Decoding:
        """Without the problem set."""
        return Decoding(**{name: value for name, value in vars(self).items() if name != "problem_set"})

    def __str__(self) -> str:
        return f"{self.problem_set}, {self.alone}"

    @property
    def slug(self) -> str:
        """For names of files."""
        return f"{self.problem_set}-{self.alone.slug}"


@dataclass(frozen=True)
class TablePlace:
    """What a table of another trainer's results says of where and how its values were measured."""

    problem_set: str = ""
    decoding: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.problem_set, self.decoding or "the table's decoding")))


Place: TypeAlias = Decoding | TablePlace
"""What rows are measured on: a decoding, with the problem set where there are several."""


def set_of(place: Place) -> str:
    """The problem set of a place, "" where there is one alone."""
    return place.problem_set if isinstance(place, SetDecoding | TablePlace) else ""


def with_macro_averages(places: Sequence[Place]) -> dict[Place, list[Place]]:
    """What is shown, and what each is the average of: macro averages of several sets first, then each by itself."""
    of_macro: dict[Place, list[Place]] = {}
    for place in places:
        if isinstance(place, SetDecoding | TablePlace) and place.problem_set:
            of_macro.setdefault(replace(place, problem_set=MACRO), []).append(place)
    macros = {macro: parts for macro, parts in of_macro.items() if len(parts) > 1}
    return {**macros, **{place: [place] for place in places}}


# ---- answers and figures ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RewardRange:
    """What the rewards of a leaderboard lie within: from 0 to 1, or wider. They are judged as shares of it."""

    low: float
    high: float

    @classmethod
    def of(cls, evaluations: Iterable[Evaluation]) -> "RewardRange | None":
        """The range of these; None if every reward is the correctness of its response, or some are not recorded."""
        low, high, is_apart = 0.0, 1.0, False
        for evaluation in evaluations:
            if not evaluation.has("reward"):
                return None
            rewards = evaluation.column("reward")
            low, high = min(low, float(rewards.min())), max(high, float(rewards.max()))
            is_apart = is_apart or bool((rewards != evaluation.column("correct")).any())
        return cls(low, high) if is_apart else None

    def shares(self, rewards: np.ndarray) -> np.ndarray:
        """From 0 to 1."""
        return (rewards - self.low) / (self.high - self.low)

    def measured(self, by_share: Measured) -> Measured:
        """What was judged by shares, in rewards."""
        span, known = self.high - self.low, by_share.difference
        estimate = _stretched(by_share.estimate, span, self.low)
        difference = known and replace(
            _stretched(known, span), alone=_stretched(known.alone, span), detectable=span * known.detectable
        )
        seeds = tuple(self.low + span * mean for mean in by_share.by_seed)
        verdict = replace(by_share.verdict, margin=span * by_share.verdict.margin)
        return Measured(estimate, seeds, difference, verdict)


def _stretched(estimate: Interval, span: float, start: float = 0.0) -> Interval:
    mean, low, high = (start + span * value for value in (estimate.mean, estimate.low, estimate.high))
    return replace(estimate, mean=mean, low=low, high=high)


@dataclass(frozen=True)
class Answers:
    """What one trained model answered at one place."""

    correct: np.ndarray
    """[problems, samples] from 0 to 1; 1 is right."""
    texts: Hashable
    """Equal for those who answered just the same, and were graded so."""
    majorities: np.ndarray | None = None
    """[problems] maj@k, k all samples; None where it is not known which answers are equal."""
    length: float | None = None
    """Mean tokens of a response; None where they are not recorded."""
    truncated: float | None = None
    """The share of responses that were stopped by length."""
    area: Area | None = None
    """Under the curve of its accuracy; None where not all runs were evaluated on the way."""
    rewards: np.ndarray | None = None
    """[problems, samples] as shares of the range of the leaderboard's rewards; None where a reward says no more than
    `correct` does."""

    @property
    def samples(self) -> int:
        """Of each problem."""
        return int(self.correct.shape[1])

    @classmethod
    def of(cls, evaluation: Evaluation, area: Area | None = None, rewards: RewardRange | None = None) -> "Answers":
        """Those that an evaluation kept, their rewards by the range of all."""
        correct = evaluation.column("correct")
        return cls(
            correct,
            (correct.tobytes(), *(record["response"] for record in evaluation.records)),
            evaluation.majorities if evaluation.has("final_answer") else None,
            float(evaluation.column("tokens").mean()) if evaluation.has("tokens") else None,
            evaluation.truncated,
            area,
            rewards.shares(evaluation.column("reward")) if rewards else None,
        )


@dataclass(frozen=True)
class ScoredRun:
    """One trained model: what it answered."""

    seed: int
    answers: Mapping[Place, Answers]


RunsOf = Mapping[Identity, Sequence[ScoredRun]]
"""By row."""
ACCURACY, AREA, REWARD = "avg", "area", "reward"


@dataclass(frozen=True)
class AnswerMeasure:
    """What is judged of the answers of one model at one place, k being all samples."""

    values: Callable[[Answers], np.ndarray | None]
    """[problems] from 0 to 1; None where it cannot be known."""
    unit: Callable[[Answers], float] = lambda answers: 1.0
    """Values of a problem are multiples of it."""
    answered: Callable[[Answers], Hashable] = lambda answers: answers.texts
    """Key of the answers. Models with equal keys answered the same and have the same values."""


MEASURES: Mapping[str, AnswerMeasure] = {
    ACCURACY: AnswerMeasure(
        lambda answers: np.asarray(answers.correct.mean(axis=1)), lambda answers: 1 / answers.samples
    ),
    REWARD: AnswerMeasure(
        lambda answers: None if answers.rewards is None else np.asarray(answers.rewards.mean(axis=1)),
        lambda answers: 1 / answers.samples,
    ),
    "pass": AnswerMeasure(lambda answers: pass_at_k(answers.correct, answers.samples)),
    "maj": AnswerMeasure(lambda answers: answers.majorities),
    AREA: AnswerMeasure(
        lambda answers: answers.area.values if answers.area else None,
        lambda answers: answers.area.unit / answers.samples if answers.area else 1.0,
        lambda answers: answers.area.answers if answers.area else None,
    ),
}
"""By name: pass is called pass@k."""


@dataclass(frozen=True)
class Result:
    """A row at one place."""

    measured: Mapping[str, Measured]
    """By each of the MEASURES."""
    pass_at: Mapping[int, float]
    length: float | None
    truncated: float | None

    @property
    def average(self) -> Measured:
        """By avg@k, the measure that rows are ranked by."""
        return self.measured[ACCURACY]

    @property
    def accuracy(self) -> Estimate:
        """avg@k."""
        return self.average.estimate

    @property
    def difference(self) -> Difference | None:
        """Of avg@k, to the baseline."""
        return self.average.difference


@dataclass(frozen=True)
class Alike:
    """Rows that answered just the same at these places."""

    rows: tuple[Identity, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Results:
    """All rows."""

    rows: Mapping[Place, Mapping[Identity, Result]]
    averages: Mapping[Place, Verdicts[Identity]]
    samples: Mapping[Place, int]
    """k; of macro averages the largest."""
    alike: Sequence[Alike]
    primary: Sequence[tuple[str, Place]]
    """Measures and places that were named beforehand."""


def make_results(
    runs: RunsOf,
    baseline: Identity,
    places: Sequence[Place],
    equivalence: float = 0.0,
    looks: int = 1,
    primary: str = "",
) -> Results:
    """Every row at every place; `equivalence` is a share, as accuracies are.

    Several problem sets have macro averages before them, which are judged as they are. All measures at all places
    are one family of tests; a `primary` measure is a family by itself, and the others stay corrected for all.
    """
    parts_of, first = with_macro_averages(places), runs[baseline][0].answers
    every = [answers for of_row in runs.values() for run in of_row for answers in run.answers.values()]
    names = [name for name, of in MEASURES.items() if all(of.values(answers) is not None for answers in every)]
    judged_at = [(name, shown) for name in names for shown in parts_of]
    measures = [
        Measure(
            {row: _scores(of_row, parts_of[shown], MEASURES[name].values) for row, of_row in runs.items()},
            max(MEASURES[name].unit(first[part]) for part in parts_of[shown]),
            _same_as(runs, baseline, parts_of[shown], MEASURES[name].answered),
            by=name,
            problems=set_of(shown),
            is_average=len(parts_of[shown]) > 1,
        )
        for name, shown in judged_at
    ]
    alike = {
        shown: measure.same_as for (name, shown), measure in zip(judged_at, measures, strict=True) if name == ACCURACY
    }
    judged = dict(zip(judged_at, judge(measures, baseline, equivalence, looks), strict=True))
    named = _named_beforehand(primary, judged_at) if primary else []
    if named:
        of_named = [measures[judged_at.index(pair)] for pair in named]
        judged |= zip(named, judge(of_named, baseline, equivalence, looks), strict=True)
    rows = {
        shown: {
            row: _result({name: judged[name, shown].rows[row] for name in names}, of_row, parts)
            for row, of_row in runs.items()
        }
        for shown, parts in parts_of.items()
    }
    most = {shown: max(first[part].samples for part in parts) for shown, parts in parts_of.items()}
    return Results(rows, {shown: judged[ACCURACY, shown] for shown in parts_of}, most, _alike_rows(alike), named)


def _named_beforehand(primary: str, judged_at: Sequence[tuple[str, Place]]) -> list[tuple[str, Place]]:
    """The measures and places that `pass`, or `pass at 0.7/0.9`, names. Raises UserError if there are none."""
    measure, _, where = primary.partition(" at ")
    measure = measure.partition("@")[0]
    found = [(name, place) for name, place in judged_at if name == measure and (not where or _is_called(place, where))]
    if not found:
        there = ", ".join(dict.fromkeys(f"{name} at {place}" for name, place in judged_at))
        raise UserError(f"primary={primary}: nothing is measured so; write a measure, or one of {there}")
    return found


def _is_called(place: Place, text: str) -> bool:
    """Whether a place is written so, or its decoding, also as the key `evaluation.decodings` has it."""
    if isinstance(place, TablePlace):
        return text in (str(place), place.decoding)
    decoding = place.alone if isinstance(place, SetDecoding) else place
    return text in (str(place), str(decoding), decoding.slug, f"{decoding.temperature:g}/{decoding.top_p:g}")


def _scores(
    runs: Sequence[ScoredRun], parts: Sequence[Place], by_problem: Callable[[Answers], np.ndarray | None]
) -> RunScores:
    sets = [np.stack([np.asarray(by_problem(run.answers[part])) for run in runs]) for part in parts]
    return RunScores(tuple(run.seed for run in runs), macro_values(sets), macro_problems(sets))


def _result(measured: Mapping[str, Measured], runs: Sequence[ScoredRun], parts: Sequence[Place]) -> Result:
    answers = [run.answers[part] for part in parts for run in runs]
    correct = [np.concatenate([run.answers[part].correct for run in runs]) for part in parts]
    largest = min(of_set.shape[1] for of_set in correct)
    return Result(
        measured,
        pass_at={
            k: float(np.mean([pass_at_k(of_set, k).mean() for of_set in correct])) for k in powers_of_two(largest)
        },
        length=_mean([answer.length for answer in answers]),
        truncated=_mean([answer.truncated for answer in answers]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """None where one is not known."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _same_as(
    runs: RunsOf, baseline: Identity, parts: Sequence[Place], answered_by: Callable[[Answers], Hashable]
) -> dict[Identity, Identity]:
    """For every row the first whose runs answered just the same, seed by seed, the baseline before all.

    Only the baseline may have further seeds: a row's figures are those of its own runs.
    """
    answered: dict[Identity, dict[int, tuple[Hashable, ...]]] = {}
    same_as = {}
    for row in sorted(runs, key=lambda row: row != baseline):
        answers = {run.seed: tuple(answered_by(run.answers[part]) for part in parts) for run in runs[row]}
        like_baseline = answers.items() <= answered.get(baseline, {}).items()
        earlier = [other for other, theirs in answered.items() if answers == theirs]
        same_as[row] = baseline if like_baseline else next(iter(earlier), row)
        answered.setdefault(same_as[row], answers)
    return same_as


def _alike_rows(same_as: Mapping[Place, Mapping[Identity, Identity]]) -> list[Alike]:
    where: dict[tuple[Identity, ...], list[Place]] = {}
    for place, others in same_as.items():
        for first in dict.fromkeys(others.values()):
            rows = tuple(row for row, other in others.items() if other == first)
            if len(rows) > 1:
                where.setdefault(rows, []).append(place)
    return [Alike(rows, tuple(places)) for rows, places in where.items()]
