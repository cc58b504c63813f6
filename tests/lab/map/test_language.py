"""The enumeration is complete, and what is exact agrees with sums by hand and with finite differences."""

from itertools import product

import pytest
import torch
from torch import Tensor

from rlzoo.lab.map.language import Language
from rlzoo.lab.map.regimes import QUANTITIES, REGIMES, entropy_change, make_setting, quantities, slopes

LANGUAGE = Language(letters=3, limit=4)


def random_table(prompts: int = 2, language: Language = LANGUAGE) -> Tensor:
    """Logits of a policy."""
    shape = (prompts, language.limit, language.vocabulary + 1, language.vocabulary)
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_every_response_is_there_once_and_their_probabilities_sum_to_1() -> None:
    words = [(*word, 3) for n in range(4) for word in product(range(3), repeat=n)] + list(product(range(3), repeat=4))
    found = [tuple(row[:length].tolist()) for row, length in zip(LANGUAGE.symbols, LANGUAGE.length, strict=True)]
    assert found == words
    assert LANGUAGE.truncated.tolist() == [3 not in word for word in words]
    torch.testing.assert_close(LANGUAGE.log_probs(random_table()).exp().sum(1), torch.ones(2, dtype=torch.float64))


def test_a_place_is_visited_as_often_as_the_responses_that_come_to_it() -> None:
    table = random_table()
    probability, expected = LANGUAGE.log_probs(table).exp(), torch.zeros(2, 4, 5, dtype=torch.float64)
    for response in range(len(LANGUAGE.symbols)):
        for position in range(LANGUAGE.length[response]):
            expected[:, position, LANGUAGE.previous[response, position]] += probability[:, response]
    torch.testing.assert_close(LANGUAGE.visits(table), expected)


def test_the_square_of_the_natural_length_is_the_divergence_of_a_small_step() -> None:
    table, direction = random_table(), random_table().flip(0)
    old, new = LANGUAGE.log_probs(table), LANGUAGE.log_probs(table + 1e-3 * direction)
    exact = (old.exp() * (old - new)).sum(1).mean()
    predicted = 1e-6 * LANGUAGE.natural(table, direction).square().sum()
    assert float(predicted) == pytest.approx(float(exact), rel=2e-3)


@pytest.mark.parametrize("regime", ["on_policy", "stale", "long", "partial_rewards"])
def test_values_and_gradients_agree_with_finite_differences(regime: str) -> None:
    setting = make_setting(REGIMES[regime])
    direction = torch.randn(setting.current.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    forth, back = (quantities(setting, setting.current + h * direction) for h in (1e-5, -1e-5))
    predicted = (slopes(setting) * direction).flatten(1).sum(1)
    assert len(predicted) == len(QUANTITIES)
    torch.testing.assert_close(predicted, (forth - back) / 2e-5, rtol=1e-6, atol=1e-9)


def test_quantities_are_those_of_a_count_by_hand() -> None:
    setting = make_setting(REGIMES["on_policy"])
    probability = setting.language.log_probs(setting.current).exp().numpy()
    right, length = setting.right.numpy(), setting.language.length.numpy()
    found = dict(zip(QUANTITIES, quantities(setting, setting.current).tolist(), strict=True))
    rows = range(len(probability))
    passed = [probability[p] @ right[p] for p in rows]
    assert found["reward"] == pytest.approx(sum(passed) / len(passed))
    assert found["pass_8"] == pytest.approx(sum(1 - (1 - it) ** 8 for it in passed) / len(passed))
    assert found["length_right"] == pytest.approx(
        sum((probability[p] * right[p]) @ length / passed[p] for p in rows) / len(passed)
    )
    assert found["entropy"] == pytest.approx(
        -(probability * setting.language.log_probs(setting.current).numpy()).sum() / 16
    )


def test_the_formula_for_the_entropy_holds_where_the_same_places_are_visited() -> None:
    setting = make_setting(REGIMES["on_policy"])
    change = 1e-4 * torch.randn(setting.current.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = entropy_change(setting, change)
    before, after = (quantities(setting, table)[2] for table in (setting.current, setting.current + change))
    assert found.predicted == pytest.approx(found.same_places, rel=1e-2)
    assert found.all == pytest.approx(float(after - before), rel=1e-9)


@pytest.mark.parametrize("name", REGIMES)
def test_a_regime_is_what_it_says(name: str) -> None:
    setting = make_setting(REGIMES[name])
    probability = setting.language.log_probs(setting.sampler).exp()
    right = (probability * setting.right).sum(1)
    assert (setting.value * setting.language.truncated == 0).all() and (right > 0).all()
    assert (setting.current != setting.old).any() == (name in ("stale", "slightly_stale"))
    assert (setting.sampler != setting.old).any() == (name == "mismatched")
    if name == "hard":
        assert 0.04 < float(right.mean()) < 0.07
    if name == "partial_rewards":
        assert setting.value.unique().tolist() == [0, 0.25, 0.5, 0.75, 1]
