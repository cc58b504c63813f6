"""Parts that say that they cannot act while every ratio is 1 change no gradient there, and no other part is as idle."""

import torch
from torch import Tensor

from objectives import Objective, ObjectiveError, parse
from objectives.zoo import PARTS, RECIPES, names, with_examples
from tests.golden.guard import batches

OF_ENTROPY = {"adaptive_entropy", "entropy_bonus"}
"""Penalties whose gradient goes through the entropy, of which gradients of log-probs say nothing."""
IN_PART = {"soft_gate", "divergence_clip"}
"""Idle up to rounding, and idle where the engine's log-probs are the policy's."""
FRESH = [batch.with_fields(logp=batch.logp_old, entropy=batch.entropy_old) for batch in batches()]


def _gradients(objective: Objective) -> list[Tensor]:
    return [gradient for batch in FRESH for gradient in objective.token_gradients(batch)]


def _is_same(objective: Objective, other: Objective) -> bool:
    return all(torch.equal(a, b) for a, b in zip(_gradients(objective), _gradients(other), strict=True))


def test_what_cannot_act_while_every_ratio_is_one_changes_no_gradient() -> None:
    checked = 0
    for name in RECIPES:
        objective = parse(with_examples(next(entry for entry in names() if entry.name == name)))
        if objective.on_policy != objective and objective.pass_count == 1 and "logp_teacher" not in objective.needs:
            assert _is_same(objective, objective.on_policy), name
            checked += 1
    assert checked > 20


def test_every_part_that_is_idle_while_all_ratios_are_one_says_so() -> None:
    entries, found = {entry.name: entry for entry in names() if entry.kind == "part"}, set[str]()
    for name, part in PARTS.items():
        if part.origin:  # of another test
            continue
        try:
            whole = parse(f"grpo-kl+{with_examples(entries[name])}")
            less = whole.without(name)
            is_idle = less != whole and _is_same(whole, less)
        except ObjectiveError:
            continue
        found |= {name} if is_idle and part.acts_on_policy else set()
    assert found - OF_ENTROPY - IN_PART == set()


def test_a_modifier_of_bounds_is_idle_where_its_surrogate_is() -> None:
    assert parse("grpo+clip_higher-kl").idle_on_policy == ("clip", "clip_higher")
    assert parse("grpo+clip_higher-kl").on_policy == parse("grpo-kl").on_policy
    assert parse("justrl").on_policy != parse("stapo").on_policy


def test_rounding_is_no_drift_from_the_policy_that_sampled() -> None:
    for estimator in ("abs", "k2"):
        objective = parse(f"grpo-kl+drift(beta=0.1,estimator={estimator})")
        for batch in FRESH:
            rounded = batch.with_fields(on_policy=True, logp=batch.require("logp_old", "test") * (1 + 1e-7))
            for found, expected in zip(
                objective.token_gradients(rounded), parse("grpo-kl").token_gradients(rounded), strict=True
            ):
                assert torch.equal(found, expected)
