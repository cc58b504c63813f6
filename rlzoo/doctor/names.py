"""What the loggers of other trainers call the columns of the table.

TRL: `trl/trainer/grpo_trainer.py` (`_metrics`, `log`), commit f2cd577; `grad_norm` and `learning_rate` are
transformers'. verl: `verl/trainer/ppo/metric_utils.py`, `verl/workers/actor/dp_actor.py`, `verl/utils/debug/metrics.py`
and `verl/trainer/ppo/rollout_corr_helper.py`, commit b178a3c. prime-rl: `src/prime_rl/trainer/rl/train.py` and
`src/prime_rl/orchestrator/{orchestrator,metrics}.py`, commit 559b447.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from rlzoo.doctor.columns import COLUMNS


def _as_it_is(value: float) -> float:
    return value


@dataclass(frozen=True)
class Source:
    """A metric of a trainer that stands for a column."""

    pattern: re.Pattern[str]
    value: Callable[[float], float] = _as_it_is


def _sources(*patterns: str, value: Callable[[float], float] = _as_it_is) -> tuple[Source, ...]:
    return tuple(Source(re.compile(pattern), value) for pattern in patterns)


_AGENT = r"train/agg/all/[^/]+"
SOURCES: Mapping[str, tuple[Source, ...]] = {
    "loss": _sources("actor/pg_loss", "loss/mean"),
    "reward": _sources("critic/score/mean", "critic/rewards/mean", f"{_AGENT}/reward/mean"),
    "reward_deviation": _sources("reward_std", f"{_AGENT}/reward/std"),
    "entropy": _sources("actor/entropy", "entropy/all/mean"),
    "length": _sources("completions/mean_length", "response_length/mean", f"{_AGENT}/num_output_tokens/mean"),
    "truncated": _sources("completions/clipped_ratio", "response_length/clip_ratio", f"{_AGENT}/is_truncated/mean"),
    "groups_without_signal": _sources("frac_reward_zero_std"),
    "gradient_norm": _sources("grad_norm", "actor/grad_norm", "optim/grad_norm"),
    "clipped": _sources(
        "(?:actor/)?touched/clip/tokens", "clip_ratio/region_mean", "actor/pg_clipfrac", "is_masked/all/mean"
    ),
    "sampler_difference": _sources("sampler/difference", "sampling/sampling_logp_difference/mean"),
    "sampler_kl": _sources("rollout_corr/k3_kl", "mismatch_kl/all/mean"),
    "sampler_probability_difference": _sources("training/rollout_probs_diff_mean"),
    "learning_rate": _sources("actor/lr", "optim/lr"),
}
"""Column -> the metrics that stand for it, the best first. A metric with a column's own name comes before them."""


@lru_cache(100_000)
def _place_of(metric: str) -> tuple[str, int]:
    """The column that a metric stands for, and how many stand for it better; `("", 0)` for what is no column."""
    if metric in COLUMNS:
        return metric, 0
    for name, sources in SOURCES.items():
        for rank, source in enumerate(sources, 1):
            if source.pattern.fullmatch(metric):
                return name, rank
    return "", 0


def canonical(record: Mapping[str, float]) -> dict[str, float]:
    """The columns that the metrics of a step have, whoever's they are; what is no column is left out."""
    ranks, values = dict[str, int](), dict[str, float]()
    for metric, value in record.items():
        name, rank = _place_of(metric)
        if name and rank <= ranks.get(name, rank):
            ranks[name] = rank
            values[name] = SOURCES[name][rank - 1].value(value) if rank else value
    none, every = (_solved(record, share) for share in ("solved_none", "solved_all"))
    if none is not None and every is not None:
        values.setdefault("groups_without_signal", none + every)
    return _with_skipped(values)


def _with_skipped(values: dict[str, float]) -> dict[str, float]:
    """A norm that is no number is that of an update which trainers skip, and which some do not count."""
    norm = values.get("gradient_norm")
    if norm is None:
        return values
    if not math.isfinite(norm):
        return {**values, "gradient_norm": math.nan, "updates_skipped": max(1.0, values.get("updates_skipped", 0.0))}
    return {"updates_skipped": 0.0, **values}


def _solved(record: Mapping[str, float], name: str) -> float | None:
    """prime-rl's share of groups of which none, or all, are right."""
    return next((value for metric, value in record.items() if _is_solved(metric, name)), None)


@lru_cache(100_000)
def _is_solved(metric: str, name: str) -> bool:
    return re.fullmatch(f"{_AGENT}/{name}", metric) is not None
