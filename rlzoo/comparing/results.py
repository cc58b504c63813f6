"""The figures of every row with every decoding, and what may be said of them."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlzoo.comparing.differences import Runs
from rlzoo.comparing.finished_runs import FinishedRun
from rlzoo.comparing.verdicts import HOPELESS, Difference, Measured, Verdicts, judge
from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.statistics import (
    Estimate,
    majority_at_k,
    pass_at_k,
    powers_of_two,
    probability_of_improvement,
)

RunsOf = Mapping[str, Sequence[FinishedRun]]
"""By row."""


@dataclass(frozen=True)
class Result:
    """A row with one decoding. avg@k, pass@k and maj@k, k all samples, are three pages of verdicts of their own."""

    average: Measured
    passed: Measured
    majority: Measured
    p_improvement: float | None
    """P(improvement) as rliable has it: the share of pairs of runs that the baseline loses; None for the baseline."""
    pass_at: Mapping[int, float]
    length: float
    truncated: float

    @property
    def accuracy(self) -> Estimate:
        """avg@k."""
        return self.average.estimate

    @property
    def difference(self) -> Difference | None:
        """Of avg@k, to the baseline."""
        return self.average.difference

    @property
    def verdict(self) -> str:
        """On avg@k."""
        return self.average.verdict


@dataclass(frozen=True)
class Results:
    """All rows, and sentences on all of them."""

    rows: Mapping[Decoding, Mapping[str, Result]]
    planning: Sequence[str]
    alike: Sequence[str]


def make_results(
    runs: RunsOf, baseline: str, decodings: Sequence[Decoding], equivalence: float = 0.0, looks: int = 1
) -> Results:
    """Every row with every decoding; `equivalence` is a share, as accuracies are."""
    alike = [_alike(runs, baseline, decoding) for decoding in decodings]
    correct = [{name: _correct(own, decoding) for name, own in runs.items()} for decoding in decodings]
    samples = correct[0][baseline].shape[2]

    def measured(values: Sequence[Mapping[str, np.ndarray]], step: float) -> Verdicts:
        seeds = {name: tuple(run.config.seed for run in own) for name, own in runs.items()}
        by_row = [{name: Runs(seeds[name], own) for name, own in one.items()} for one in values]
        return judge(by_row, alike, baseline, step, equivalence, looks)

    majorities = [{name: _majorities(own, it) for name, own in runs.items()} for it in decodings]
    averages = measured([{name: own.mean(axis=2) for name, own in one.items()} for one in correct], 1 / samples)
    passes = measured([{name: _passes(own) for name, own in one.items()} for one in correct], 1.0)
    votes = measured(majorities, 1.0)
    rows = {
        decoding: {
            name: Result(
                averages.rows[place][name],
                passes.rows[place][name],
                votes.rows[place][name],
                None if name == baseline else _pairs_won(correct[place][name], correct[place][baseline]),
                _pass_at(correct[place][name]),
                float(np.mean([run.evaluations[decoding].column("tokens") for run in own])),
                float(np.mean([run.evaluations[decoding].truncated for run in own])),
            )
            for name, own in runs.items()
        }
        for place, decoding in enumerate(decodings)
    }
    return Results(rows, _planning(averages, decodings), _alike_rows(alike, decodings))


def _correct(runs: Sequence[FinishedRun], decoding: Decoding) -> np.ndarray:
    """[seeds, problems, samples]."""
    return np.stack([run.evaluations[decoding].column("correct") for run in runs])


def _passes(correct: np.ndarray) -> np.ndarray:
    """[seeds, problems] pass@k, k all samples."""
    return np.stack([pass_at_k(own, correct.shape[2]) for own in correct])


def _majorities(runs: Sequence[FinishedRun], decoding: Decoding) -> np.ndarray:
    """[seeds, problems] maj@k."""
    evaluations = [run.evaluations[decoding] for run in runs]
    return np.stack([majority_at_k(it.column("correct"), it.final_answers()) for it in evaluations])


def _pass_at(correct: np.ndarray) -> dict[int, float]:
    samples = correct.shape[2]
    return {k: float(pass_at_k(correct.reshape(-1, samples), k).mean()) for k in powers_of_two(samples)}


def _pairs_won(correct: np.ndarray, baseline: np.ndarray) -> float:
    return probability_of_improvement(correct.mean(axis=(1, 2)), baseline.mean(axis=(1, 2)))


def _alike(runs: RunsOf, baseline: str, decoding: Decoding) -> dict[str, str]:
    """For every row the first, the baseline before all, whose runs answered just the same, seed by seed.

    One of the two may have further seeds.
    """
    answered: dict[str, dict[int, tuple[str, ...]]] = {}
    found = {}
    for name in [baseline, *(name for name in runs if name != baseline)]:
        own = {run.config.seed: _answers(run, decoding) for run in runs[name]}
        found[name] = next((it for it, other in answered.items() if _agree(own, other)), name)
        if found[name] == name:
            answered[name] = own
    return found


def _agree(own: Mapping[int, object], other: Mapping[int, object]) -> bool:
    shared = own.keys() & other.keys()
    return len(shared) == min(len(own), len(other)) and all(own[seed] == other[seed] for seed in shared)


def _answers(run: FinishedRun, decoding: Decoding) -> tuple[str, ...]:
    return tuple(record["response"] for record in run.evaluations[decoding].records)


# ---- in words --------------------------------------------------------------------------------------------------------


def _planning(averages: Verdicts, decodings: Sequence[Decoding]) -> list[str]:
    lines = []
    for decoding, rows, correlation in zip(decodings, averages.rows, averages.correlations, strict=True):
        known = [it for it in rows.values() if it.difference and it.difference.detectable > 0 and len(it.by_seed) > 1]
        stable = [it for it in known if not it.is_unstable]
        if not known:
            continue
        found = statistics.median(it.difference.detectable for it in stable or known if it.difference)
        if found > HOPELESS:
            seeds = max(len(it.by_seed) for it in rows.values())
            lines.append(
                f"At {decoding}, {seeds} seeds are too few: not even a true difference of {100 * HOPELESS:g} points "
                f"would have been found with 80 % probability. The intervals say no more; train on further seeds."
            )
            continue
        lines.append(
            f"At {decoding}, a true difference of {100 * found:.1f} points would have been found with 80 % probability "
            f"(the median of the rows); runs with the same seed are paired with a correlation of "
            f"{correlation:.2f}."
        )
    return lines


def _alike_rows(alike: Sequence[Mapping[str, str]], decodings: Sequence[Decoding]) -> list[str]:
    lines = []
    for decoding, names in zip(decodings, alike, strict=True):
        for first in dict.fromkeys(names.values()):
            same = [name for name, other in names.items() if other == first]
            if len(same) > 1:
                lines.append(f"At {decoding}, {' and '.join(same)} answered just the same; they count once.")
    return lines
