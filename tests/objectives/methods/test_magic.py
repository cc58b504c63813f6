"""The controller of MAGIC's entropy bonus beside that of its authors."""

import pytest
import torch

from objectives import parse
from tests.objectives.vectors import small_batch, tokens

ENTROPIES = [0.1, 0.1, 0.3, 0.1, 0.1, 0.1, 0.1, 0.2, 0.3, 0.3, 0.3, 0.3]
WEIGHTS = [0, 1, 2, 1, 2, 3, 3, 3, 2, 1, 0, 0]
REALIZED = [0, 1, 2, 0, 2, 3, 3, 3, 0, 0, 0, 0]
"""Of `EntController(0, 3e-4, 0, 1e-4, 0.2, True)`, SkyworkAI/Skywork-OR1@64e96af core_algos.py:56-74, times 1e4."""


def run(expression: str, entropies: list[float]) -> list[dict[str, float]]:
    """The state of each step; the surprisals of the rollouts are their entropies."""
    objective, state, found = parse(expression), {}, []
    for entropy in entropies:
        values = torch.full((2, 2), entropy, dtype=torch.float64)
        batch = small_batch(tokens([0.5, 0.5]).expand(2, 2), [1.0, 0.0], [0, 0], entropy_old=values, logp_old=-values)
        state = objective.prepare(batch, state).state
        found.append(state["adaptive_entropy"])
    return found


def test_the_authors_controller_step_by_step() -> None:
    states = run("magic(variant=authors,most=0.0003)", ENTROPIES)
    assert [state["weight"] * 1e4 for state in states] == pytest.approx(WEIGHTS, abs=1e-9)
    assert [state["coefficient"] * 1e4 for state in states] == pytest.approx(REALIZED, abs=1e-9)


def test_the_papers_switch_looks_at_the_step_itself() -> None:
    states = run("magic(most=0.0003)", ENTROPIES)
    assert [state["weight"] * 1e4 for state in states] == pytest.approx(WEIGHTS, abs=1e-9)
    expected = [weight * (entropy < 0.2) for weight, entropy in zip(WEIGHTS, ENTROPIES, strict=True)]
    assert [state["coefficient"] * 1e4 for state in states] == pytest.approx(expected, abs=1e-9)


def test_a_step_without_tokens_leaves_the_controller_where_it_is() -> None:
    objective = parse("magic")
    batch = small_batch(tokens([0.5, 0.5]).expand(2, 2), [1.0, 1.0], [0, 0])
    before = {"adaptive_entropy": {"entropy": 0.1, "weight": 0.001, "coefficient": 0.001}}
    after = objective.prepare(batch, before).state["adaptive_entropy"]
    assert after["entropy"] == 0.1 and after["weight"] == pytest.approx(0.0011)


def test_it_stands_beside_other_objectives() -> None:
    assert parse("stapo+magic") == parse("stapo+adaptive_entropy")
    assert parse("skywork_or1") == parse("magic")
    assert parse("magic-magic") == parse("justrl+dynamic_sampling-clip_higher")
