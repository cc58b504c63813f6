"""Accuracy of every row by the tokens that it had sampled, and what each had reached when all had spent the same.

Held-out evaluations count where all runs have enough of them, otherwise the right share of the training rollouts of
each step. Objectives that drop groups of equal reward train on others than they sampled; for them what was sampled
counts, in accuracy and in tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlzoo.comparing.finished_runs import FinishedRun
from rlzoo.comparing.grid import Identity
from rlzoo.errors import UserError
from rlzoo.records import reading
from rlzoo.statistics.curves import Curves, accuracies_at
from rlzoo.statistics.intervals import Estimate

LEAST_POINTS = 6
"""Held-out evaluations of each run, the untrained model's among them, from which they are the curve."""


@dataclass(frozen=True)
class TokenCurve:
    """How one row's accuracy grew."""

    tokens: np.ndarray
    """[points] sampled so far, mean of the seeds."""
    accuracy: np.ndarray
    """[points] mean of the seeds."""
    at_equal_tokens: Estimate | None
    """Accuracy; None for one seed."""
    at_equal_steps: Estimate | None


@dataclass(frozen=True)
class TokenCurves:
    """The curves of all rows of a leaderboard."""

    is_held_out: bool
    """Whether points are evaluations, and not training rollouts."""
    tokens: float
    """The most that every run had spent at some point."""
    steps: int
    """Likewise."""
    rows: Mapping[Identity, TokenCurve]
    """Without rows that drop groups and did not record what they sampled."""


@dataclass(frozen=True)
class _Points:
    """Points of the runs of one row."""

    by_tokens: Curves
    by_steps: Curves


def token_curves(runs: Mapping[Identity, Sequence[FinishedRun]]) -> TokenCurves | None:
    """The curves of all rows; None if nothing is known of any. Raises UserError for damaged files."""
    is_held_out = all(len(_evaluated(of_row)) >= LEAST_POINTS for of_row in runs.values())
    by_row = {row: _evaluations(of_row) if is_held_out else _rollouts(of_row) for row, of_row in runs.items()}
    known = {row: points for row, points in by_row.items() if points}
    if not known:
        return None
    by_tokens, by_steps = ([points.by_tokens for points in known.values()], [it.by_steps for it in known.values()])
    tokens, steps = (min(float(each.compute[:, -1].min()) for each in curves) for curves in (by_tokens, by_steps))
    at_tokens, at_steps = accuracies_at(by_tokens, tokens), accuracies_at(by_steps, steps)
    rows = {
        row: TokenCurve(points.by_tokens.compute.mean(axis=0), points.by_tokens.accuracy.mean(axis=0), *equal)
        for (row, points), *equal in zip(known.items(), at_tokens, at_steps, strict=True)
    }
    return TokenCurves(is_held_out, tokens, int(steps), rows)


def _evaluated(runs: Sequence[FinishedRun]) -> list[int]:
    """The steps after which all of them were evaluated."""
    return sorted(set.intersection(*(set(run.held_out) for run in runs)))


def _evaluations(runs: Sequence[FinishedRun]) -> _Points | None:
    steps = _evaluated(runs)
    return _points(runs, steps, [[run.held_out[step] for step in steps] for run in runs])


def _rollouts(runs: Sequence[FinishedRun]) -> _Points | None:
    """The rollouts of a step are those of the policy that the steps before it made."""
    count = min(len(run.metrics) for run in runs)
    accuracy = []
    for run in runs:
        with reading(run.folder.metrics):
            sampled = [line.get("sampled/accuracy", line["accuracy"]) for line in run.metrics[:count]]
        accuracy.append(sampled)
    return _points(runs, list(range(count)), accuracy)


def _points(runs: Sequence[FinishedRun], steps: Sequence[int], accuracy: Sequence[Sequence[float]]) -> _Points | None:
    """None where a run does not tell what it spent."""
    spent = [each for run in runs if (each := tokens_spent(run)) is not None]
    if len(spent) < len(runs):
        return None
    tokens = np.array([each[list(steps)] for each in spent])
    by_step = np.array([steps] * len(runs), dtype=np.float64)
    return _Points(Curves(tokens, np.array(accuracy)), Curves(by_step, np.array(accuracy)))


def tokens_spent(run: FinishedRun) -> np.ndarray | None:
    """[steps + 1] response tokens that a run had sampled before its first step and after each.

    None for one that dropped groups and did not record what it sampled, as earlier versions did not.
    """
    with reading(run.folder.metrics):
        sampled = [line.get("sampled/tokens") for line in run.metrics]
        is_filtered = any(line.get("groups_dropped", 0.0) > 0 for line in run.metrics)
    if None not in sampled:
        return np.cumsum([0.0, *sampled])
    if is_filtered:
        return None
    kept = {line["step"]: line["tokens"] for line in run.timings}
    missing = [line["step"] for line in run.metrics if line["step"] not in kept]
    if missing:
        raise UserError(f"{run.folder.timings} is damaged: it has lost step {missing[0]}; leave this run out")
    return np.cumsum([0.0, *(kept[line["step"]] for line in run.metrics)])
