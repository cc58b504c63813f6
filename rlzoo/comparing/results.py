"""The figures of every row with every decoding, and what may be said of them."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlzoo.comparing.aggregates import improvement, interquartile_mean, performance_profile, rank_probabilities
from rlzoo.comparing.differences import Runs
from rlzoo.comparing.finished_runs import FinishedRun
from rlzoo.comparing.problem_sets import macro_problems, macro_values, with_macro_averages
from rlzoo.comparing.verdicts import HOPELESS, Difference, Measured, Verdicts, judge
from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.statistics import Estimate, pass_at_k, powers_of_two

ByProblem = Mapping[Decoding, Mapping[str, np.ndarray]]
"""[seeds, problems] values of every row."""
RunsOf = Mapping[str, Sequence[FinishedRun]]
"""By row."""


@dataclass(frozen=True)
class Result:
    """A row with one decoding. avg@k, pass@k and maj@k, k all samples, are three pages of verdicts of their own."""

    average: Measured
    passed: Measured
    majority: Measured
    p_improvement: float | None
    """P(improvement), rliable's: the share of pairs of runs that the baseline loses; None for the baseline."""
    pass_at: Mapping[int, float]
    length: float
    truncated: float
    interquartile_mean: float
    """Of the runs on all problem sets."""
    profile: Sequence[float]
    """The share of them above each of the THRESHOLDS."""
    ranks: Sequence[float]
    """The probability of each rank, the first before all."""

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
    samples: Mapping[Decoding, int]
    """k; of macro averages the largest."""
    planning: Sequence[str]
    alike: Sequence[str]


def make_results(
    runs: RunsOf, baseline: str, decodings: Sequence[Decoding], equivalence: float = 0.0, looks: int = 1
) -> Results:
    """Every row with every decoding; `equivalence` is a share, as accuracies are.

    Several problem sets have macro averages before them, which are judged as they are.
    """
    parts_of = with_macro_averages(decodings)
    shown = list(parts_of)
    alike = [_alike(runs, baseline, parts) for parts in parts_of.values()]
    correct = {it: {name: _correct(own, it) for name, own in runs.items()} for it in decodings}
    samples = {it: correct[it][baseline].shape[2] for it in decodings}

    def measured(values: ByProblem, step: float) -> Verdicts:
        by_row = [
            {
                name: _runs([run.config.seed for run in own], [values[part][name] for part in parts])
                for name, own in runs.items()
            }
            for parts in parts_of.values()
        ]
        return judge(by_row, alike, baseline, step, equivalence, looks)

    step = 1 / min(samples.values())
    averages = measured({it: {name: own.mean(axis=2) for name, own in by.items()} for it, by in correct.items()}, step)
    passes = measured({it: {name: _passes(own) for name, own in by.items()} for it, by in correct.items()}, 1.0)
    votes = measured({it: {name: _majorities(own, it) for name, own in runs.items()} for it in decodings}, 1.0)
    rows: dict[Decoding, dict[str, Result]] = {}
    for place, (decoding, parts) in enumerate(parts_of.items()):
        scores = {name: np.stack([correct[it][name].mean(axis=(1, 2)) for it in parts], axis=1) for name in runs}
        ranks = rank_probabilities(scores)
        rows[decoding] = {
            name: Result(
                averages.rows[place][name],
                passes.rows[place][name],
                votes.rows[place][name],
                None if name == baseline else improvement(scores[name], scores[baseline]),
                _pass_at([correct[it][name] for it in parts]),
                float(np.mean([[run.evaluations[it].column("tokens").mean() for run in own] for it in parts])),
                float(np.mean([[run.evaluations[it].truncated for run in own] for it in parts])),
                interquartile_mean(scores[name]),
                performance_profile(scores[name]),
                ranks[name],
            )
            for name, own in runs.items()
        }
    most = {it: max(samples[part] for part in parts) for it, parts in parts_of.items()}
    return Results(rows, most, _planning(averages, shown), _alike_rows(alike, shown))


def _runs(seeds: Sequence[int], parts: Sequence[np.ndarray]) -> Runs:
    return Runs(tuple(seeds), macro_values(parts), macro_problems(parts))


def _correct(runs: Sequence[FinishedRun], decoding: Decoding) -> np.ndarray:
    """[seeds, problems, samples]."""
    return np.stack([run.evaluations[decoding].column("correct") for run in runs])


def _passes(correct: np.ndarray) -> np.ndarray:
    """[seeds, problems] pass@k, k all samples."""
    return np.stack([pass_at_k(own, correct.shape[2]) for own in correct])


def _majorities(runs: Sequence[FinishedRun], decoding: Decoding) -> np.ndarray:
    """[seeds, problems] maj@k."""
    return np.stack([run.evaluations[decoding].majorities for run in runs])


def _pass_at(parts: Sequence[np.ndarray]) -> dict[int, float]:
    """Of [seeds, problems, samples] on each set, for every k that all sets have."""
    largest = min(part.shape[2] for part in parts)
    return {
        k: float(np.mean([pass_at_k(part.reshape(-1, part.shape[2]), k).mean() for part in parts]))
        for k in powers_of_two(largest)
    }


def _alike(runs: RunsOf, baseline: str, parts: Sequence[Decoding]) -> dict[str, str]:
    """For every row another, the baseline before all, whose runs answered just the same, seed by seed.

    That one may have further seeds.
    """
    answered: dict[str, dict[int, tuple[tuple[str, ...], ...]]] = {}
    found = {}
    for name in sorted(runs, key=lambda name: (name != baseline, -len(runs[name]))):
        own = {run.config.seed: tuple(_answers(run, it) for it in parts) for run in runs[name]}
        found[name] = next((it for it, other in answered.items() if _agree(own, other)), name)
        if found[name] == name:
            answered[name] = own
    return found


def _agree(own: Mapping[int, object], other: Mapping[int, object]) -> bool:
    return all(seed in other and answers == other[seed] for seed, answers in own.items())


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
    where: dict[str, list[Decoding]] = {}
    for decoding, names in zip(decodings, alike, strict=True):
        for first in dict.fromkeys(names.values()):
            same = [name for name, other in names.items() if other == first]
            if len(same) > 1:
                where.setdefault(" and ".join(same), []).append(decoding)
    return [f"{_at(own, decodings)}, {rows} answered just the same; they count once." for rows, own in where.items()]


def _at(some: Sequence[Decoding], decodings: Sequence[Decoding]) -> str:
    everywhere = len(some) == len(decodings) > 1
    return "Everywhere" if everywhere else f"At {'; '.join(map(str, some))}"
