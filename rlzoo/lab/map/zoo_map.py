"""The map: every expression in every regime, on the same rollouts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from objectives import Objective, ObjectiveError, names, parse, with_examples
from rlzoo.lab.keys import MapConfig
from rlzoo.lab.map.behaviour import Behaviour, Measurement, expected_changes, measure
from rlzoo.lab.map.estimates import Intervals, cosines, groups, simultaneous
from rlzoo.lab.map.regimes import QUANTITIES, REGIMES, Regime, RegimeSetting, make_setting, quantities, sample, slopes
from rlzoo.model.accelerator import one_thread

CONTRASTS = (
    "grpo-kl",
    "grpo-kl+clip_higher",
    "grpo-kl+unclipped",
    "grpo-kl+token_mean",
    "grpo-kl+token_mean+sampler_correction",
    "grpo-kl+token_mean+sampler_correction(level=product)",
    "grpo-kl+token_mean+sampler_ratio",
    "stapo(tau_p=0.05)",
    "stare(target_entropy=none,amplify=1.5)",
    "kl_cov(fraction=0.05)",
    "clip_cov(fraction=0.05)",
)
"""Beside the recipes: those in which one mechanism differs, and published thresholds that are too low for a language of
five symbols, scaled to it."""


def all_expressions() -> list[str]:
    """Every recipe, and the contrasts."""
    return [*(with_examples(name) for name in names() if name.kind == "recipe"), *CONTRASTS]


ERROR = 0.05
"""The probability that any interval of a map misses what it estimates, and so that any sure sign is wrong."""


@dataclass(frozen=True, eq=False)
class RegimeMap:
    """One regime."""

    regime: Regime
    facts: Mapping[str, float]
    """Of the policy that is updated, exactly: each quantity, and `length` and `truncated`."""
    policy_gradient: Mapping[str, float]
    """What a step along the gradient of the true expected reward changes, to first order, by quantity."""
    behaviours: Sequence[Behaviour]
    cosines: np.ndarray
    """[E, E]: of gradients on the same rollouts, in the order of `behaviours`."""
    left_out: Mapping[str, str]
    """Expression -> why it has no row here."""

    @property
    def expressions(self) -> list[str]:
        """Those that have a row."""
        return [behaviour.expression for behaviour in self.behaviours]

    @property
    def groups(self) -> list[list[str]]:
        """Expressions with the same gradient here, up to a cosine of .99."""
        return groups(self.expressions, self.cosines)

    def row(self, expression: str) -> Behaviour:
        """Its row. Raises KeyError if it has none."""
        return {behaviour.expression: behaviour for behaviour in self.behaviours}[expression]


@dataclass(frozen=True, eq=False)
class ZooMap:
    """All regimes that were asked for."""

    config: MapConfig
    regimes: Sequence[RegimeMap]


def make_map(expressions: Sequence[str], config: MapConfig, tell: Callable[[str], None] = lambda text: None) -> ZooMap:
    """Measures expressions; `tell` is called with the name of each regime as it begins. Raises ObjectiveError."""
    zoo = {expression: parse(expression) for expression in dict.fromkeys(expressions)}
    names: Sequence[str] = config.regimes or list(REGIMES)
    maps = []
    with one_thread():
        for name in names:
            tell(name)
            maps.append(_regime_map(zoo, REGIMES[name], config, ERROR / len(names)))
    return ZooMap(config, maps)


def _regime_map(zoo: Mapping[str, Objective], regime: Regime, config: MapConfig, error: float) -> RegimeMap:
    setting = make_setting(regime)
    slope, rollouts = slopes(setting), sample(setting, config.batches, config.seed)
    measured, left_out = [], {}
    for expression, objective in zoo.items():
        try:
            measurement = measure(expression, objective, setting, slope, rollouts, config.step)
        except ObjectiveError as refusal:
            left_out[expression] = str(refusal)
            continue
        if measurement is None:
            left_out[expression] = "it has no gradient in any batch"
        else:
            measured.append(measurement)
    along_truth = expected_changes(setting, slope, slope[0], config.step).tolist()
    return RegimeMap(
        regime=regime,
        facts=_facts(setting),
        policy_gradient=dict(zip(QUANTITIES, along_truth, strict=True)),
        behaviours=_rows(measured, error),
        cosines=cosines([measurement.gradients for measurement in measured]),
        left_out=left_out,
    )


def _rows(measured: Sequence[Measurement], error: float) -> list[Behaviour]:
    """With intervals that hold together."""
    if not measured:
        return []
    together = simultaneous(np.concatenate([measurement.samples for measurement in measured], 1), error)
    of_each = [np.split(numbers, len(measured)) for numbers in (together.mean, together.low, together.high)]
    return [
        measurement.behaviour(Intervals(*numbers)) for measurement, *numbers in zip(measured, *of_each, strict=True)
    ]


def _facts(setting: RegimeSetting) -> dict[str, float]:
    probability = setting.language.log_probs(setting.current).exp()
    values = dict(zip(QUANTITIES, map(float, quantities(setting, setting.current)), strict=True))
    means = {"length": setting.language.length.double(), "truncated": setting.language.truncated.double()}
    return values | {name: float((probability * of_responses).sum(1).mean()) for name, of_responses in means.items()}
