"""The detectors: each is a name, a number for each step, and the threshold beyond which that is a finding.

They know nothing of runs. Thresholds were fixed on some tasks, recipes and seeds, and measured on others
(`benchmarks/doctor`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlzoo.doctor import reasons, signals
from rlzoo.doctor.columns import Array, Flags, Table, column

Reason = Callable[[Table, int], str]


@dataclass(frozen=True)
class Detector:
    """One trouble that can be seen in metrics."""

    name: str
    needs: tuple[str, ...]
    """The columns without which it cannot say anything."""
    signal: Callable[[Table], Array]
    """[steps]; NaN where it cannot say."""
    threshold: float
    unit: str
    """What the signal is, behind its number."""
    trouble: str = ""
    """A tag of `objectives.FAILURE_MODES`; empty where no objective helps."""
    setting: str = ""
    """What to do besides, or instead."""
    below: bool = False
    """Whether less of the signal is worse."""
    reason: Reason = reasons.nothing_more
    silence: str = "no step tells: there are too few, or another trouble hides it"
    """Why it may not say anything although its columns are there."""
    instead_of: str = ""
    """The detector for which this one stands where only a proxy of its column is logged."""
    live: bool = True
    """Whether it can be asked before a run is done."""
    stops_learning: bool = False
    """Whether a run learns nothing while it shows."""

    def values(self, table: Table) -> Array:
        """The signal [steps] of a table; what overflows, as whoever logged it may have logged 1e308, is unknown."""
        with np.errstate(all="ignore"):
            return self.signal(table)

    def shows(self, values: Array) -> Flags:
        """[steps] bool: the signal is at the threshold or beyond."""
        return values <= self.threshold if self.below else values >= self.threshold

    def worst(self, table: Table) -> float:
        """The signal at its worst; NaN if it never says anything."""
        values = self.values(table)
        known = values[~np.isnan(values)]
        if not len(known):
            return np.nan
        return float(known.min() if self.below else known.max())


@dataclass(frozen=True)
class Detection:
    """A trouble that shows, at the first step at which it does."""

    name: str
    step: int
    value: float
    threshold: float
    below: bool
    unit: str
    reason: str
    trouble: str
    setting: str

    def __str__(self) -> str:
        return f"{self.name.replace('_', ' ')} at step {self.step}: {self.value:.3g} {self.unit}"

    @property
    def summary(self) -> str:
        """What it is, why, and what to do, in a line."""
        return "; ".join(filter(None, (str(self), self.reason, self.setting, "rlzoo doctor says more of it")))


@dataclass(frozen=True)
class Examination:
    """All that the detectors say of a table."""

    steps: int
    findings: tuple[Detection, ...]
    """The earliest first."""
    unseen: Mapping[str, str]
    """Detectors that could not say anything, and why."""


_SAME_IN_BOTH = "check that both have the same weights, temperature, precision and softmax"
DETECTORS: tuple[Detector, ...] = (
    Detector(
        "entropy_collapse",
        ("entropy",),
        signals.fallen_entropy,
        0.2,
        "of a response's entropy at the start, over the share of errors that is left",
        "entropy_collapse",
        below=True,
        silence=f"no step tells: too few, all solved, or below {signals.LEAST_ENTROPY} nats from the start",
    ),
    Detector(
        "entropy_explosion",
        ("entropy",),
        signals.risen_entropy,
        0.5,
        "nats per token above the start",
        "entropy_explosion",
    ),
    Detector(
        "sampler_mismatch",
        ("sampler_difference",),
        signals.sampler_difference,
        0.05,
        "nats between a token's log-probs of sampler and trainer",
        "engine_mismatch",
        _SAME_IN_BOTH,
        reason=reasons.why_mismatch,
    ),
    Detector(
        "sampler_divergence",
        ("sampler_kl",),
        signals.sampler_kl,
        0.05,
        "nats per token (k3) between sampler and trainer",
        "engine_mismatch",
        _SAME_IN_BOTH,
        reason=reasons.why_mismatch,
        instead_of="sampler_mismatch",
    ),
    Detector(
        "sampler_probabilities",
        ("sampler_probability_difference",),
        signals.sampler_probability_difference,
        0.05,
        "between a token's probabilities of sampler and trainer; log-probs differ by more",
        "engine_mismatch",
        _SAME_IN_BOTH,
        reason=reasons.why_mismatch,
        instead_of="sampler_mismatch",
    ),
    Detector(
        "length_runaway",
        ("length",),
        signals.risen_length,
        1.75,
        "times the length at the start, with no fewer errors",
        "length_growth",
    ),
    Detector(
        "truncation",
        ("truncated",),
        signals.truncated,
        0.5,
        "of the responses are cut off",
        "truncation",
        "raise the limit (rollout.max_response_tokens)",
        reason=reasons.why_truncated,
    ),
    Detector(
        "dead_groups",
        ("groups_without_signal",),
        signals.dead_groups,
        0.95,
        "of the groups without a signal",
        "dead_groups",
        "look at responses and rewards: rlzoo task shows both",
        reason=reasons.why_no_signal,
        stops_learning=True,
    ),
    Detector(
        "reward_saturation",
        ("groups_without_signal",),
        signals.solved_groups,
        0.95,
        "of the groups all right",
        setting="stop here, or take harder problems",
    ),
    Detector(
        "reward_falls",
        ("reward", "reward_deviation"),
        signals.fallen_reward,
        0.7,
        "deviations of the rewards below the best",
        "stale_rollouts",
        "lower the learning rate (train.learning_rate); check the sign of log-probs and advantages",
        reason=reasons.why_fallen,
    ),
    Detector(
        "skipped_updates",
        ("updates_skipped",),
        signals.skipped_updates,
        0.4,
        "of the last five steps skipped an update",
        "precision",
        "take out what divides by zero or overflows; model.precision=float32",
        stops_learning=True,
    ),
    Detector(
        "silenced_gradient",
        ("gradient_norm",),
        signals.silenced_gradient,
        5e-4,
        "is the gradient's norm, although groups have a signal",
        setting="rlzoo inspect RUN shows which part takes it",
        below=True,
        reason=reasons.why_silent,
        stops_learning=True,
    ),
    Detector(
        "stale_rollouts",
        ("clipped",),
        signals.clipped,
        0.07,
        "of the tokens are clipped: the policy has left that of the rollouts",
        "stale_rollouts",
        reason=reasons.why_stale,
    ),
    Detector(
        "grader_fails",
        ("grading_lost",),
        signals.grading_lost,
        0.02,
        "of the responses were not graded",
        setting="raise task.grader_timeout, or mend the grader: rlzoo regrade names the responses",
    ),
    Detector(
        "repetition",
        ("repetition",),
        signals.risen_repetition,
        0.2,
        "more of the text than at the start is one unit repeated",
        "entropy_collapse",
    ),
    Detector(
        "idle_learning_rate",
        ("reward",),
        signals.surest_trend,
        3.5,
        "is the surest trend (F) of reward and entropy: neither moves",
        setting="try a higher learning rate (train.learning_rate), step by step; a slow run may only need more steps",
        below=True,
        reason=reasons.why_idle,
        silence=f"there are fewer than {signals.FEWEST_STEPS} steps, or nothing could be learnt in most",
        live=False,
    ),
)
"""In the order in which troubles hide each other: what stands behind may only be seen once those before are gone."""


def examine(table: Table, detectors: Sequence[Detector] = DETECTORS) -> Examination:
    """What the detectors find in a table."""
    findings, unseen = list[Detection](), dict[str, str]()
    for detector in detectors:
        lacking = [name for name in detector.needs if not np.isfinite(column(table, name)).any()]
        values = detector.values(table)
        if detector.instead_of:
            if lacking or detector.instead_of not in unseen:
                continue
            del unseen[detector.instead_of]
        if lacking:
            unseen[detector.name] = f"there is no {' and no '.join(lacking)}"
        elif np.isnan(values).all():
            unseen[detector.name] = detector.silence
        elif (showing := np.flatnonzero(detector.shows(values))).size:
            findings.append(_finding(detector, table, values, int(showing[0])))
    steps = len(column(table, "step"))
    return Examination(steps, tuple(sorted(findings, key=lambda finding: finding.step)), unseen)


def standstill(table: Table) -> list[Detection]:
    """The findings that show at the last step, and while they show a run learns nothing."""
    found = list[Detection]()
    for detector in DETECTORS:
        values = detector.values(table) if detector.stops_learning and table else np.zeros(0)
        if len(values) and detector.shows(values[-1:])[0]:
            found.append(_finding(detector, table, values, len(values) - 1))
    return found


def _finding(detector: Detector, table: Table, values: Array, row: int) -> Detection:
    return Detection(
        name=detector.name,
        step=int(column(table, "step")[row]),
        value=float(values[row]),
        threshold=detector.threshold,
        below=detector.below,
        unit=detector.unit,
        reason=detector.reason(table, row),
        trouble=detector.trouble,
        setting=detector.setting,
    )
