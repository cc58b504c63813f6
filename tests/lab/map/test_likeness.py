"""Who is alike: cosines on the same rollouts, groups in which all are, and a plane that keeps distances."""

import numpy as np
import pytest

from rlzoo.lab.map.estimates import SAME, cosines, distances, groups, plane

GENERATOR = np.random.default_rng(0)


def test_a_cosine_is_the_mean_over_batches_whatever_the_lengths() -> None:
    first, second = GENERATOR.standard_normal((2, 6, 40))
    expected = np.mean([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(first, second, strict=True)])
    found = cosines([first, 3 * second * np.arange(1, 7)[:, None], -first])
    assert found[0, 1] == pytest.approx(expected) and found[0, 2] == pytest.approx(-1)


def test_a_batch_without_a_gradient_counts_as_a_right_angle() -> None:
    first, second = GENERATOR.standard_normal((2, 4, 10))
    second[2:] = 0
    found = cosines([first, second])
    assert found[1, 1] == pytest.approx(1) and np.isfinite(found).all()


def test_all_of_a_group_are_the_same_and_no_two_groups_could_be_one() -> None:
    base = GENERATOR.standard_normal((3, 30))
    vectors = [base[number % 3] + 0.03 * GENERATOR.standard_normal(30) for number in range(12)]
    cosine = cosines([it[None] for it in vectors])
    names = [f"m{number}" for number in range(12)]
    found = groups(names, cosine)
    assert sorted(name for group in found for name in group) == sorted(names) and len(found) == 3
    for group in found:
        places = [names.index(name) for name in group]
        assert cosine[np.ix_(places, places)].min() >= SAME


def test_gradients_in_a_plane_keep_their_distances_there() -> None:
    angles = np.array([0.0, 0.2, 0.9, 2.0, 3.0])
    apart = distances(np.cos(angles[:, None] - angles))
    places = plane(np.cos(angles[:, None] - angles))
    found = np.linalg.norm(places[:, None] - places, axis=-1)
    np.testing.assert_allclose(found, apart, atol=1e-3)
