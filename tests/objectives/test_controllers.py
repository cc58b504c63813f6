"""Controllers: a state that is set once per rollout step, remembered, and the same for every mini-batch.

STARE's gate and weights are such a one; a part of any kind may have one.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from objectives import Loop, Mask, Objective, ObjectiveError, Prepared, Select, TokenBatch, parse, register
from objectives.adapters.columns import batch_of, columns_of
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import at_current, evaluate, same


@dataclass(frozen=True)
class Patient(Mask):
    """Masks tokens whose probability is above a limit that falls from step to step."""

    name = "patient"
    paper = ""
    reads = frozenset({"logp_old"})

    def control(self, batch: Prepared, state: Mapping[str, float]) -> Mapping[str, float]:
        return {"limit": state.get("limit", 1.0) / 2}

    def keeps(self, batch: Prepared) -> Tensor:
        return batch.require("logp_old", self.name).exp() <= batch.state_of(self.name)["limit"]


@pytest.fixture
def patient() -> Objective:
    """A mask with a controller on GRPO."""
    register(Patient)
    return parse("grpo+patient")


def test_a_mask_with_a_controller_masks_by_its_state(patient: Objective) -> None:
    batch = at_current(token_batch(random_case(1, moved=True)))
    state: Mapping[str, Mapping[str, float]] = {}
    for limit in (0.5, 0.25, 0.125):
        step = Loop(patient, moved=True).begin(batch, state)
        state = step.prepared.state
        assert state == {"patient": {"limit": limit}}
        (plan,) = map(step.plan, range(len(step.rows)))
        masked = plan.batch.mask & (batch.logp_old.exp() > limit)
        assert torch.equal(plan.touched["patient"], masked) and masked.any()
        assert (plan.policy_coefficient[masked] == 0).all()


@pytest.mark.parametrize("expression", ["grpo+patient", "stare(source=current)", "stare(adaptive=true,source=current)"])
def test_the_state_of_controllers_goes_with_the_plan_to_verls_workers(expression: str, patient: Objective) -> None:
    objective, batch = parse(expression), at_current(token_batch(random_case(1, moved=True)))
    batch = batch.with_fields(entropy_old=torch.full_like(batch.logp_old, 2.0))
    step = Loop(objective, moved=True).begin(batch, {"patient": {"limit": 0.3}})
    sent = batch_of(columns_of(objective, step.passes), 0, None).with_fields(logp=batch.logp, entropy=batch.entropy)
    assert sent.state == step.prepared.state != {}
    (part,) = step.prepared.state
    here, there = (objective.plan(prepared).touched[part] for prepared in (step.passes[0], sent))
    assert torch.equal(here, there) and bool(here.any()) == (part == "patient")


def test_a_part_that_reads_an_unset_state_says_so() -> None:
    objective, batch = parse("stare(source=current)"), at_current(token_batch(random_case(1, moved=True)))
    prepared = parse("stare-stare").prepare(batch)
    with pytest.raises(ObjectiveError, match="surprisal_reweighting reads the state of its controller"):
        objective.plan(prepared)


def test_a_controller_before_controllers_are_asked_is_refused() -> None:
    class Early(Select):
        name = "early"
        control = Patient.control

    with pytest.raises(ObjectiveError, match="a part of stage select comes before controllers are asked"):
        register(Early)


# ---- STARE's gate ----------------------------------------------------------------------------------------------------


def entropy_batch(entropy: float) -> TokenBatch:
    case = random_case(1, extreme=False, moved=True)
    return token_batch(replace(case, entropy_old=np.full(case.mask.shape, entropy)))


@pytest.mark.parametrize("variant", ["paper", "c2", "authors"])
def test_a_closed_gate_leaves_the_gradient_alone_for_the_whole_step(variant: str) -> None:
    objective, plain = parse(f"stare(variant={variant})"), parse(f"stare(variant={variant})-stare")
    for entropy, on in ((0.25, True), (0.3, False), (0.35, False)):
        batch = entropy_batch(entropy)
        assert objective.prepare(batch).state["surprisal_reweighting"]["on"] == on
        assert same(evaluate(objective, batch), evaluate(plain, batch)) != on


@pytest.mark.parametrize("variant", ["paper", "authors"])
def test_the_gate_is_set_by_the_rollout_batch_and_holds_in_every_mini_batch(variant: str) -> None:
    objective = parse(f"stare(variant={variant})")
    batch = entropy_batch(0.25)
    loud = torch.zeros(len(batch.mask), dtype=torch.bool)
    loud[:3] = True
    batch = batch.with_fields(entropy_old=torch.where(loud[:, None], 0.5, 0.05).expand_as(batch.mask).double())
    prepared = objective.prepare(batch)
    assert prepared.state["surprisal_reweighting"]["on"] == 1.0
    plan = objective.plan(prepared.rows(loud))
    assert plan.touched["surprisal_reweighting"].any()


def test_the_set_is_that_of_the_rollout_batch_not_of_a_mini_batch() -> None:
    objective, batch = parse("stare(target_entropy=none,amplify=2)"), entropy_batch(0.2)
    prepared, half = objective.prepare(batch), torch.arange(len(batch.mask)) % 2 == 0
    planned = objective.plan(prepared.rows(half)).batch.advantage
    assert torch.equal(planned, prepared.advantage[half])
    assert not torch.equal(planned, objective.prepare(batch.rows(half)).advantage)


def test_the_gate_keeps_its_last_state_without_entropies() -> None:
    objective, batch = parse("stare(adaptive=true)"), entropy_batch(0.2)
    unknown = batch.with_fields(entropy_old=torch.full_like(batch.entropy_old, math.nan))
    nothing = batch.with_fields(correct=torch.ones_like(batch.correct))
    for last in (
        {"on": 0.0, "amplify": 1.3, "attenuate": 1.0},
        {"on": 1.0, "amplify": 1.2, "attenuate": 1.0},
    ):
        for silent in (unknown, nothing):
            assert objective.prepare(silent, {"surprisal_reweighting": last}).state == {"surprisal_reweighting": last}
    assert objective.prepare(unknown).state["surprisal_reweighting"]["on"] == 1.0


def test_adaptive_weights_follow_the_distance_to_the_target_within_bounds() -> None:
    objective = parse("stare(adaptive=true,attenuate=0.9)")
    state: dict[str, dict[str, float]] = {}
    trace = []
    for entropy in [0.2] * 45 + [0.3] + [0.4] * 60:
        prepared = objective.prepare(entropy_batch(entropy), state)
        state = json.loads(json.dumps(prepared.state))
        now = state["surprisal_reweighting"]
        trace.append((now["on"], now["amplify"], now["attenuate"]))
    assert trace[0] == pytest.approx((1, 1.11, 0.89))
    assert trace[9] == pytest.approx((1, 1.2, 0.8))
    assert trace[44] == pytest.approx((1, 1.5, 0.5))
    assert trace[45] == pytest.approx((0, 1.5, 0.5))
    assert trace[46] == pytest.approx((0, 1.49, 0.51))
    assert trace[-1] == pytest.approx((0, 1.0, 1.0))


def test_adaptive_weights_are_those_of_the_state() -> None:
    objective, batch = parse("stare(adaptive=true)"), entropy_batch(0.2)
    fixed = parse("stare(amplify=1.25)")
    state = {"surprisal_reweighting": {"on": 0.0, "amplify": 1.24, "attenuate": 1.0}}
    adapted, expected = objective.prepare(batch, state), fixed.prepare(batch)
    torch.testing.assert_close(adapted.advantage, expected.advantage, rtol=1e-12, atol=0)


def test_a_fixed_weight_has_no_drift() -> None:
    objective, state = parse("stare"), {}
    for _ in range(3):
        state = objective.prepare(entropy_batch(0.2), state).state
    assert state == {"surprisal_reweighting": {"on": 1.0, "amplify": 1.1, "attenuate": 1.0}}
