"""Means without the noise of their batches, and signs that are wrong in at most 5 % of maps."""

import numpy as np
import pytest

from rlzoo.lab.map.behaviour import sign
from rlzoo.lab.map.estimates import normalised_samples, simultaneous

BATCHES, DIRECTIONS, DIMENSION = 24, 60, 400


def batches_of(generator: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """[B, D] skewed and heavy-tailed, as gradients of few right answers are; the signal is .6 of the noise."""
    noise = generator.exponential(size=(BATCHES, len(mean))) ** 1.5
    noise = (noise - noise.mean()) / noise.std()
    common = generator.standard_normal((BATCHES, 1)) * np.sin(np.arange(len(mean)))
    noise = noise + common
    return mean + noise * np.linalg.norm(mean) / 0.6 / np.sqrt((noise**2).sum(1).mean())


def test_the_noise_of_the_batches_is_taken_off_a_length() -> None:
    generator = np.random.default_rng(0)
    mean = generator.standard_normal(DIMENSION)
    direction = mean / np.linalg.norm(mean)
    found = []
    for _ in range(200):
        vectors = batches_of(generator, mean)
        found.append(normalised_samples(vectors @ vectors.T, vectors @ direction[:, None]).mean())
        naive = (vectors @ direction).mean() / np.linalg.norm(vectors.mean(0))
    assert np.mean(found) == pytest.approx(1, abs=4 * np.std(found) / 200**0.5 + 1e-3)
    assert naive < 0.99


def test_what_does_not_vary_has_an_interval_of_no_width() -> None:
    found = simultaneous(np.tile([1.0, 0.0, -2.0], (8, 1)), 0.05)
    assert [sign(found[place]) for place in range(3)] == [1, 0, -1]


def test_an_effect_that_is_there_is_sure_and_one_that_is_not_is_not() -> None:
    generator = np.random.default_rng(1)
    samples = generator.standard_normal((BATCHES, 100))
    samples[:, :50] += 2.0
    found = simultaneous(samples, 0.05)
    assert all(sign(found[place]) == 1 for place in range(50)) and not any(sign(found[it]) for it in range(50, 100))


@pytest.mark.slow
def test_a_sure_sign_is_wrong_in_at_most_5_percent_of_maps() -> None:
    """Most directions are at right angles to the mean, where any sign is wrong; rows share what their rollouts have."""
    generator, wrong, maps = np.random.default_rng(2), 0, 400
    for _ in range(maps):
        mean = generator.standard_normal(DIMENSION)
        directions = generator.standard_normal((DIMENSION, DIRECTIONS)) + 0.05 * mean[:, None]
        along = directions[:, : DIRECTIONS - 5]
        along -= np.outer(mean, mean @ along) / (mean @ mean)
        truth = np.sign(np.round(mean @ directions, 9))
        vectors = batches_of(generator, mean)
        found = simultaneous(normalised_samples(vectors @ vectors.T, vectors @ directions), 0.05)
        signs = np.array([sign(found[place]) for place in range(DIRECTIONS)])
        wrong += bool(((signs != 0) & (signs != truth)).any())
    assert wrong / maps <= 0.05 + 2 * (0.05 * 0.95 / maps) ** 0.5
