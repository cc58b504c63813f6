"""Pairs and triples that a researcher would type are what papers and pages say, written out in numpy without our rules.

The derivations in `by_hand` know nothing of how the package, or the other references, put parts together.
"""

from dataclasses import replace

import numpy as np
import pytest

from objectives import parse
from tests.objectives.batches import Case, random_case, token_batch
from tests.objectives.by_hand import DERIVED

BATCHES = range(30)


def ragged(seed: int) -> Case:
    """Half of them with holes, ratios from e^-3 to e^3; in some a group is all right, or responses are truncated."""
    case = random_case(5000 + seed, extreme=False, moved=True)
    assert case.logp is not None
    case = replace(case, logp=np.minimum(case.logp_old + np.clip(3 * (case.logp - case.logp_old), -3, 3), 0.0))
    if seed % 3 == 0:
        case = replace(case, correct=np.where(case.group == case.group[0], 1.0, case.correct))
    return replace(case, reward=case.correct.copy(), truncated=case.truncated & (seed % 2 == 0))


@pytest.mark.parametrize("text", DERIVED)
def test_a_composition_is_what_the_papers_give_by_hand(text: str) -> None:
    objective, pushed = parse(text), 0
    for seed in BATCHES:
        batch = ragged(seed)
        found, wanted = objective.token_gradients(token_batch(batch)), DERIVED[text](batch)
        largest = max(abs(push).max() for push in wanted)
        for push, derived in zip(found, wanted, strict=True):
            assert abs(push.numpy() - derived).max() <= 1e-10 * largest
        pushed += largest > 0
    assert pushed > 2 / 3 * len(BATCHES)


def test_they_are_forty_and_none_is_one_name_alone() -> None:
    assert len({parse(text).key for text in DERIVED}) == len(DERIVED) >= 40
    assert all("+" in text for text in DERIVED)
