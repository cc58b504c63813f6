"""A part of any kind may have a controller, whose state is set once per rollout step and goes where the plan goes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from objectives import Loop, Mask, Objective, ObjectiveError, Prepared, Select, parse, register
from objectives.adapters.columns import batch_of, columns_of
from objectives.zoo import PARTS
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import at_current


@dataclass(frozen=True)
class Patient(Mask):
    """Silences tokens whose probability is above a limit that falls from step to step."""

    name = "patient"
    paper = ""
    reads = frozenset({"logp_old"})

    def control(self, batch: Prepared, state: Mapping[str, float]) -> Mapping[str, float]:
        return {"limit": state.get("limit", 1.0) / 2}

    def keeps(self, batch: Prepared) -> Tensor:
        return batch.require("logp_old", self.name).exp() <= batch.state_of(self.name)["limit"]


@pytest.fixture
def patient() -> Iterator[Objective]:
    """A mask with a controller on GRPO."""
    register(Patient)
    yield parse("grpo+patient")
    PARTS.pop("patient")


def test_a_mask_with_a_controller_silences_by_its_state(patient: Objective) -> None:
    batch = at_current(token_batch(random_case(1, moved=True)))
    state: Mapping[str, Mapping[str, float]] = {}
    for limit in (0.5, 0.25, 0.125):
        step = Loop(patient, moved=True).begin(batch, state)
        state = step.prepared.state
        assert state == {"patient": {"limit": limit}}
        (plan,) = [step.plan(update) for update in step.updates()]
        silenced = plan.batch.mask & (batch.logp_old.exp() > limit)
        assert torch.equal(plan.touched["patient"], silenced) and silenced.any()
        assert (plan.policy_coefficient[silenced] == 0).all()


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


def test_a_part_that_reads_a_state_that_nobody_set_says_so() -> None:
    objective, batch = parse("stare(source=current)"), at_current(token_batch(random_case(1, moved=True)))
    prepared = parse("stare-stare").prepare(batch)
    with pytest.raises(ObjectiveError, match="surprisal_reweighting reads the state of its controller"):
        objective.plan(prepared)


def test_a_controller_where_nobody_asks_for_it_is_refused() -> None:
    class Early(Select):
        name = "early"
        control = Patient.control

    with pytest.raises(ObjectiveError, match="a part of stage select comes before controllers are asked"):
        register(Early)
