"""Tables of metrics that tests begin with."""

import numpy as np

from rlzoo.doctor.detectors import DETECTORS, Detector
from rlzoo.doctor.indicators import Array, Table

STEPS = 30


def healthy(steps: int = STEPS) -> dict[str, Array]:
    """A run that learns: reward rises, entropy falls a little, all else is quiet."""
    rng, time = np.random.default_rng(0), np.linspace(0, 1, steps)
    noise = 0.01 * rng.standard_normal((4, steps))
    return {
        "step": np.arange(1.0, steps + 1),
        "loss": noise[0],
        "reward": 0.2 + 0.4 * time + noise[1],
        "reward_deviation": np.full(steps, 0.5),
        "accuracy": 0.2 + 0.4 * time + noise[1],
        "entropy": 1.2 - 0.6 * time + noise[2],
        "length": 200 + 10 * time,
        "truncated": np.full(steps, 0.05),
        "groups": np.full(steps, 16.0),
        "groups_without_signal": np.full(steps, 0.3),
        "gradient_norm": 0.5 + noise[3],
        "clipped": np.full(steps, 0.01),
        "sampler_difference": np.full(steps, 0.005),
        "updates_skipped": np.zeros(steps),
        "grading_lost": np.zeros(steps),
        "repetition": np.full(steps, 0.02),
        "learning_rate": np.full(steps, 1e-6),
        "sampler_kl": np.full(steps, 1e-4),
        "sampler_probability_difference": np.full(steps, 0.004),
    }


def changed(first: int, **columns: float) -> Table:
    """The healthy table with these values from a row on."""
    table = healthy()
    for name, value in columns.items():
        table[name][first:] = value
    return table


def named(name: str) -> Detector:
    """The detector of a name."""
    return next(detector for detector in DETECTORS if detector.name == name)
