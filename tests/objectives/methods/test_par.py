"""The controller of positive-advantage reweighting."""

import pytest
import torch

from objectives import ObjectiveError, parse
from tests.objectives.vectors import small_batch, tokens

HALF = tokens([0.5, 0.5])


def weights_after(entropies: list[float], **start: float) -> list[float]:
    objective, state, found = parse("par(target_entropy=0.25)"), {}, []
    for entropy in entropies:
        batch = small_batch(HALF.expand(2, 2), [1.0, 0.0], [0, 0], entropy_old=torch.full((2, 2), entropy))
        prepared = objective.prepare(batch, state)
        state = prepared.state
        found.append((prepared.advantage[0, 0] / -prepared.advantage[1, 0]).item())
    return found


def test_good_tokens_count_less_while_the_entropy_is_low_and_more_again_after() -> None:
    assert weights_after([0.125, 0.125, 0.25, 0.5, 0.5, 0.5]) == pytest.approx([0.95, 0.9, 0.9, 0.95, 1.0, 1.0])
    assert weights_after([0.1] * 25)[-1] == pytest.approx(0.0, abs=1e-9)


def test_the_target_is_asked_for() -> None:
    with pytest.raises(ObjectiveError, match="positive_reweighting needs target_entropy"):
        parse("par")
