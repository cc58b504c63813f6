"""The digest of an objective's meaning: another calculation changes it, another way to write the same one does not."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from objectives import parse
from objectives.methods.tokens import S2T
from objectives.parts.advantages import GroupNorm
from objectives.parts.aggregates import TokenMean
from objectives.parts.penalties import KL
from objectives.parts.rewards import SoftOverlong
from objectives.parts.surrogates import Clip
from rlzoo.experiment.meaning import meaning, meaning_of_ours
from tests.objectives.zoo_names import RECIPES


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What another test has changed means nothing here."""
    meaning_of_ours.cache_clear()
    yield
    meaning_of_ours.cache_clear()


@pytest.mark.parametrize(
    ("part", "method", "expression"),
    [
        (SoftOverlong, "shaping", "dapo"),
        (GroupNorm, "of", "grpo"),
        (Clip, "loss", "stapo"),
        (TokenMean, "coefficients", "stapo"),
        (KL, "penalty", "grpo+kl"),
    ],
)
@pytest.mark.parametrize("factor", [1 + 1e-4, 1 + 1e-13])
def test_what_a_part_calculates_is_the_meaning_and_its_rounding_is_not(
    part: type, method: str, expression: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, plain = meaning(parse(expression)), getattr(part, method)

    def rewritten(*arguments: Any) -> Any:
        return plain(*arguments) * factor

    monkeypatch.setattr(part, method, rewritten)
    meaning_of_ours.cache_clear()
    assert (meaning(parse(expression)) == before) == (factor - 1 < 1e-6)


def test_what_a_mask_silences_is_the_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    before, plain = meaning(parse("stapo")), S2T._keeps
    monkeypatch.setattr(S2T, "_keeps", lambda *given: plain(*given).logical_not().logical_not())
    meaning_of_ours.cache_clear()
    assert meaning(parse("stapo")) == before
    monkeypatch.setattr(S2T, "_keeps", lambda *given: torch.ones_like(plain(*given)))
    meaning_of_ours.cache_clear()
    assert meaning(parse("stapo")) == meaning(parse("stapo-s2t")) != before


def test_recipes_of_different_parts_have_different_meanings() -> None:
    recipes = [parse(expression) for expression in RECIPES]
    meanings = {meaning(objective): objective.key for objective in recipes}
    assert len(meanings) == len({*recipes})
