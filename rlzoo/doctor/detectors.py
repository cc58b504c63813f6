"""The detectors: each is a name, a number for each step, and the threshold beyond which that is a finding.

They know nothing of runs. Thresholds were fixed on some tasks, recipes and seeds, and measured on others
(`benchmarks/doctor`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from rlzoo.doctor import indicators
from rlzoo.doctor.indicators import Array, Flags, Table, column, right

Reason = Callable[[Table, int], str]


# ---- why a finding shows ---------------------------------------------------------------------------------------------

# Each says it as far as the other numbers of the finding's step tell.

EMPTY = 1.5
"""Tokens at most of a response that says nothing: its end alone, and sometimes one more."""


def nothing_more(table: Table, step: int) -> str:
    """Of a finding that says all by itself."""
    return ""


def why_no_signal(table: Table, row: int) -> str:
    """What the responses of each group have in common at a row of the table, and whether training has made it so."""
    return _alike(table, row) + _broken(table, row)


def _broken(table: Table, row: int) -> str:
    """Of a model that had a signal in its first step and has earned less ever since it has none."""
    reward = column(table, "reward")
    had_signal = _at(table, "groups_without_signal", 0) < 1 and not _at(table, "updates_skipped", 0) > 0
    lost = np.flatnonzero(column(table, "groups_without_signal")[: row + 1] < 1)
    if not had_signal or not (reward[lost[-1] + 1 : row + 1] < reward[0]).all():
        return ""
    rate = _at(table, "learning_rate", row)
    value = f"={rate:.3g}" if np.isfinite(rate) else ""
    return (
        f"; training has broken the model, which earned {reward[0]:.3g} in step {_at(table, 'step', 0):g} and "
        f"{reward[row]:.3g} in step {_at(table, 'step', row):g}: lower train.learning_rate{value}, the likely cause"
    )


def _alike(table: Table, row: int) -> str:
    length, share = _at(table, "length", row), float(right(table)[row])
    loss = _at(table, "loss", row)
    so = " (so the loss is 0)" if loss == 0 else ""
    if length <= EMPTY:
        return f"the responses are empty: {length:.3g} tokens on average{so}"
    if _at(table, "truncated", row) >= 0.9:
        return f"nearly all responses are truncated, and earn the same{so}"
    if not np.isfinite(share):
        return f"all rewards of a group are equal{_mean_reward(table, row)}{so}"
    if share <= 0.02:
        return f"all wrong: {share:.0%} right{so}"
    return f"all rewards of a group are equal, though {share:.0%} are right{so}" if share < 0.98 else f"all right{so}"


def _mean_reward(table: Table, row: int) -> str:
    """Which they are, if rewards are logged: those that do not lie between 0 and 1 are no share of right ones."""
    reward = _at(table, "reward", row)
    return f": {reward:.3g} on average" if np.isfinite(reward) else ""


def why_silent(table: Table, row: int) -> str:
    """Who took the gradient."""
    share = _at(table, "clipped", row)
    if share > 0.5:
        return f"the clip takes {share:.0%} of the tokens"
    seen = f"the clip takes only {share:.0%}: " if np.isfinite(share) else ""
    return f"{seen}a mask takes the tokens, or a divisor makes the advantages tiny (a large eps)"


def why_idle(table: Table, row: int) -> str:
    """The rate."""
    rate = _at(table, "learning_rate", row)
    return f"the learning rate is {rate:.3g}" if np.isfinite(rate) else ""


def why_truncated(table: Table, row: int) -> str:
    """How long responses are."""
    length = _at(table, "length", row)
    return f"responses have {length:.4g} tokens on average" if np.isfinite(length) else ""


def why_stale(table: Table, row: int) -> str:
    """How old the policy of the tokens is."""
    behind = _at(table, "staleness", row)
    return f"the policy of a token is {behind:.3g} updates old on average before the step" if behind > 0 else ""


def why_fallen(table: Table, row: int) -> str:
    """What the reward was at its best, and what it is."""
    reward = column(table, "reward")
    best = int(np.nanargmax(reward[: row + 1]))
    return f"from {reward[best]:.3g} to {reward[row]:.3g}"


def why_mismatch(table: Table, row: int) -> str:
    """What becomes of the difference, where that is known."""
    if _at(table, "old_of_sampler", row) != 1:
        return ""
    return "the ratio is to the sampler, and takes this for a change of the policy; not so with rollout.old_logp=policy"


def _at(table: Table, name: str, row: int) -> float:
    return float(column(table, name)[row])


IN_OTHERS: Mapping[str, Mapping[str, str]] = {
    "trl": {
        "train.learning_rate": "learning_rate",
        "rollout.max_response_tokens": "max_completion_length",
        "model.precision=float32": "bf16=False, fp16=False and weights in float32",
        "rlzoo task shows": "log_completions=True shows",
        "rlzoo inspect RUN shows": "the touched/ metrics of objectives.adapters.trl show",
    },
    "verl": {
        "train.learning_rate": "actor_rollout_ref.actor.optim.lr",
        "rollout.max_response_tokens": "data.max_response_length",
        "model.precision=float32": "train in float32",
        "rlzoo task shows": "trainer.rollout_data_dir=FOLDER keeps",
        "rlzoo inspect RUN shows": "the touched/ metrics of objectives.adapters.verl show",
    },
}
"""Trainer -> words of ours in a reason or a setting -> what its user types or reads for them."""


def _in_words_of(trainer: str, text: str) -> str:
    for ours, theirs in IN_OTHERS.get(trainer, {}).items():
        text = text.replace(ours, theirs)
    return text


# ---- detectors -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Detector:
    """One failure mode that can be seen in metrics."""

    name: str
    needs: tuple[str, ...]
    """The columns without which it cannot say anything."""
    signal: Callable[[Table], Array]
    """[steps]; NaN where it cannot say."""
    threshold: float
    unit: str
    """What the signal is, behind its number."""
    failure_mode: str = ""
    """A tag of `objectives.FAILURE_MODES`; empty where no objective helps."""
    setting: str = ""
    """What to do besides, or instead."""
    below: bool = False
    """Whether less of the signal is worse."""
    reason: Reason = nothing_more
    silence: str = "no step tells: there are too few, or another failure mode hides it"
    """Why it may not say anything although its columns are there."""
    instead_of: str = ""
    """The detector for which this one stands where only a proxy of its column is logged."""
    live: bool = True
    """Whether it can be asked before a run is done."""
    stops_learning: bool = False
    """Whether a run learns nothing while it shows."""

    def values(self, table: Table) -> Array:
        """The signal [steps] of a table; what overflows, as a logged 1e308 does, is unknown."""
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
    """A failure mode that shows, at the first step at which it does."""

    name: str
    step: int
    value: float
    threshold: float
    below: bool
    unit: str
    reason: str
    failure_mode: str
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
        indicators.fallen_entropy,
        0.2,
        "of a response's entropy at the start, over the share of errors that is left",
        "entropy_collapse",
        below=True,
        silence=f"no step tells: too few, all solved, or below {indicators.LEAST_ENTROPY} nats from the start",
    ),
    Detector(
        "entropy_explosion",
        ("entropy",),
        indicators.risen_entropy,
        0.5,
        "nats per token above the start",
        "entropy_explosion",
    ),
    Detector(
        "sampler_mismatch",
        ("sampler_difference",),
        indicators.steady("sampler_difference"),
        0.05,
        "nats between a token's log-probs of sampler and trainer",
        "engine_mismatch",
        _SAME_IN_BOTH,
        reason=why_mismatch,
    ),
    Detector(
        "sampler_divergence",
        ("sampler_kl",),
        indicators.steady("sampler_kl"),
        0.05,
        "nats per token (k3) between sampler and trainer",
        "engine_mismatch",
        _SAME_IN_BOTH,
        reason=why_mismatch,
        instead_of="sampler_mismatch",
    ),
    Detector(
        "sampler_probabilities",
        ("sampler_probability_difference",),
        indicators.steady("sampler_probability_difference"),
        0.05,
        "between a token's probabilities of sampler and trainer; log-probs differ by more",
        "engine_mismatch",
        _SAME_IN_BOTH,
        reason=why_mismatch,
        instead_of="sampler_mismatch",
    ),
    Detector(
        "length_runaway",
        ("length",),
        indicators.risen_length,
        1.75,
        "times the length at the start, with no fewer errors",
        "length_growth",
    ),
    Detector(
        "truncation",
        ("truncated",),
        indicators.steady("truncated"),
        0.5,
        "of the responses are cut off",
        "truncation",
        "raise the limit (rollout.max_response_tokens)",
        reason=why_truncated,
    ),
    Detector(
        "dead_groups",
        ("groups_without_signal",),
        indicators.dead_groups,
        0.95,
        "of the groups without a signal",
        "dead_groups",
        "look at responses and rewards: rlzoo task shows both",
        reason=why_no_signal,
        stops_learning=True,
    ),
    Detector(
        "reward_saturation",
        ("groups_without_signal",),
        indicators.solved_groups,
        0.95,
        "of the groups all right",
        setting="stop here, or take harder problems",
    ),
    Detector(
        "reward_falls",
        ("reward", "reward_deviation"),
        indicators.fallen_reward,
        0.7,
        "deviations of the rewards below the best",
        "stale_rollouts",
        "lower the learning rate (train.learning_rate); check the sign of log-probs and advantages",
        reason=why_fallen,
    ),
    Detector(
        "skipped_updates",
        ("updates_skipped",),
        indicators.skipped_updates,
        0.4,
        "of the last five steps skipped an update",
        "precision",
        "take out what divides by zero or overflows; model.precision=float32",
        stops_learning=True,
    ),
    Detector(
        "vanishing_gradient",
        ("gradient_norm",),
        indicators.vanishing_gradient,
        5e-4,
        "is the gradient's norm, although groups have a signal",
        setting="rlzoo inspect RUN shows which part takes it",
        below=True,
        reason=why_silent,
        stops_learning=True,
    ),
    Detector(
        "stale_rollouts",
        ("clipped",),
        indicators.steady("clipped"),
        0.07,
        "of the tokens are clipped: the policy has left that of the rollouts",
        "stale_rollouts",
        reason=why_stale,
    ),
    Detector(
        "grader_fails",
        ("grading_lost",),
        indicators.grading_lost,
        0.02,
        "of the responses were not graded",
        setting="raise task.grader_timeout, or mend the grader: `outcome` in responses.jsonl says which responses",
    ),
    Detector(
        "repetition",
        ("repetition",),
        indicators.risen_repetition,
        0.2,
        "more of the text than at the start is one unit repeated",
        "entropy_collapse",
    ),
    Detector(
        "idle_learning_rate",
        ("reward",),
        indicators.surest_trend,
        3.5,
        "is the surest trend (F) of reward and entropy: neither moves",
        setting="try a higher learning rate (train.learning_rate), step by step; a slow run may only need more steps",
        below=True,
        reason=why_idle,
        silence=f"there are fewer than {indicators.FEWEST_STEPS} steps, or nothing could be learnt in most",
        live=False,
    ),
)
"""In the order in which failure modes hide each other: a later one may show only once those before are gone."""


def examine(table: Table, detectors: Sequence[Detector] = DETECTORS, trainer: str = "") -> Examination:
    """What the detectors find in a table; remedies have the keys of the trainer that wrote it ("": ours)."""
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
            findings.append(_finding(detector, table, values, int(showing[0]), trainer))
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


def _finding(detector: Detector, table: Table, values: Array, row: int, trainer: str = "") -> Detection:
    return Detection(
        name=detector.name,
        step=int(column(table, "step")[row]),
        value=float(values[row]),
        threshold=detector.threshold,
        below=detector.below,
        unit=detector.unit,
        reason=_in_words_of(trainer, detector.reason(table, row)),
        failure_mode=detector.failure_mode,
        setting=_in_words_of(trainer, detector.setting),
    )


# ---- how often detectors err -----------------------------------------------------------------------------------------

RATES = Path(__file__).parents[1] / "embedded" / "evidence" / "doctor.json"


@dataclass(frozen=True)
class Rates:
    """Counts of one detector, at the threshold that it has."""

    threshold: float
    found: int
    """Number of runs with its fault in which it showed."""
    faulty: int
    alarms: int
    """Number of healthy runs in which it showed."""
    healthy: int
    """Number of healthy runs in which it could say anything."""
    steps: int
    """Steps of each of these runs."""
    alarms_longer: int = 0
    """As `alarms`, in longer runs."""
    healthy_longer: int = 0
    """As `healthy`, of longer runs."""
    steps_longer: int = 0
    """Steps of each longer run."""


@cache
def shipped_rates() -> Mapping[str, Rates]:
    """By the name of the detector."""
    detectors = json.loads(RATES.read_text(encoding="utf-8"))["detectors"]
    return {name: Rates(**measured) for name, measured in detectors.items()}


def rates_of(finding: Detection) -> Rates | None:
    """Those of its detector; None where they are of another threshold, or no healthy run let it say anything."""
    rates = shipped_rates().get(finding.name)
    return rates if rates and rates.threshold == finding.threshold and rates.healthy else None
