"""What a step's updates are made of: how old the rollouts are, and which rows are whose."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import parse
from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.experiment.check import check
from rlzoo.model.policy import load_policy
from rlzoo.training.checkpoint import Progress
from rlzoo.training.step import StepRollouts
from tests.training.recording import Recording, collected_by, rollouts, with_noise

WORDS = (
    "objective=grpo-kl",
    "rollout.responses_per_prompt=4",
    "task.problems=8",
    "evaluation.problems=1",
    "train.minibatches_per_step=1",
)


@pytest.fixture
def recorded(tiny_model: Path, float64: None) -> tuple[Recording, StepRollouts]:
    """A trainer whose policy has one update behind it, and rollouts of the policy before that."""
    experiment = check(load_config([f"model.name={tiny_model}", *WORDS]))
    policy = load_policy(experiment.config.model, experiment.tokenizer).double()
    sampled, batch = rollouts()
    trainer = Recording(experiment, Accelerator(cpu=True), policy, None, sampler=None)
    collected = collected_by(sampled, batch)
    before = trainer.scored(collected, frozenset({"logp_old"})).require("logp_old", "test")
    sampled = type(sampled)(sampled.prompts, **{**sampled.tensors(), "logp": before})
    trainer.policy.load_state_dict(with_noise(policy, 3).state_dict())
    trainer.progress = Progress(step=1, updates=1)
    trainer.gradients = []
    return trainer, collected_by(sampled, batch.with_fields(logp_sampler=before))


def test_rollouts_that_are_one_update_old_have_the_ratio_of_the_two_policies(
    recorded: tuple[Recording, StepRollouts],
) -> None:
    trainer, collected = recorded
    assert not collected.is_of(trainer.progress.updates)
    trainer.learn(collected)
    (found,) = trainer.gradients
    assert (found - by_hand(trainer, collected)).abs().max() <= 1e-9 * found.abs().max()


def test_rollouts_of_the_policy_itself_have_a_ratio_of_one(recorded: tuple[Recording, StepRollouts]) -> None:
    trainer, collected = recorded
    trainer.progress = Progress(step=1, updates=0)
    trainer.learn(collected)
    stale = trainer.gradients.pop()
    trainer.progress = Progress(step=1, updates=1)
    trainer.learn(collected)
    assert (stale - trainer.gradients.pop()).abs().max() > 1e-3 * stale.abs().max()


def test_a_rank_trains_its_own_rows_and_the_gradients_of_ranks_add_up(
    recorded: tuple[Recording, StepRollouts],
) -> None:
    trainer, collected = recorded
    trainer.policy.longest_tree = 0  # a prompt that several responses share sums their gradients in a norm's float32
    gradients = []
    row = torch.arange(len(collected.rank))
    for here in (row >= 0, row % 3 == 0, row % 3 > 0):
        trainer.learn(replace(collected, rank=(~here).long()))
        gradients.append(trainer.gradients.pop())
    whole, *parts = gradients
    assert (whole - sum(parts)).abs().max() <= 1e-9 * whole.abs().max()
    assert min(part.abs().max() for part in parts) > 1e-3 * whole.abs().max()


def by_hand(trainer: Recording, collected: StepRollouts) -> Tensor:
    """The gradient of GRPO's clipped loss, from its equation, with the ratio to the policy that sampled."""
    batch, own = collected.batch, collected.rollouts
    policy = trainer.accelerator.unwrap_model(trainer.policy)
    logp = policy(own.responses(), 1.0).logp
    advantage = parse("grpo-kl").prepare(batch).require("advantage", "test")
    ratio = (logp - own.logp).exp()
    objective = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage) * own.mask
    loss = -(objective.sum(1) / own.mask.sum(1)).mean()
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(policy.parameters()))])


def test_the_log_probs_of_prompts_are_those_of_each_by_itself(recorded: tuple[Recording, StepRollouts]) -> None:
    trainer, collected = recorded
    trainer.config.train.tokens_per_micro_batch = 7  # several micro-batches
    own = collected.rollouts
    short = type(own)([own.prompts[0][:1], *own.prompts[1:]], **own.tensors())
    found = trainer.scored(replace(collected, rollouts=short), frozenset({"logp_prompt"})).logp_prompt
    assert found is not None and found.shape == own.prompt.shape
    policy = trainer.accelerator.unwrap_model(trainer.policy)
    for number, value in zip(own.prompt.tolist(), found.tolist(), strict=True):
        tokens = torch.tensor([short.prompts[number]])
        logp = policy.model(tokens).logits[0].log_softmax(-1)
        each = [logp[i, token].item() for i, token in enumerate(tokens[0, 1:].tolist())]
        assert value == pytest.approx(sum(each) / max(1, len(each)), abs=1e-10)
    assert len(set(found.tolist())) == len(short.prompts)


@pytest.mark.parametrize(
    ("objective", "what"), [("arm(alpha=1)", "the log-probs of prompts"), ("otb", "sums of squares")]
)
def test_what_no_engine_reports_of_rollouts_ahead_cannot_be_asked_for(objective: str, what: str) -> None:
    with pytest.raises(UserError, match=f"rollout.ahead=1: a part of .* reads {what} at rollout time"):
        check(load_config([f"objective={objective}", "rollout.ahead=1"]))


def test_sums_of_squares_are_those_of_the_whole_distribution_and_nothing_if_nobody_asks(
    recorded: tuple[Recording, StepRollouts],
) -> None:
    trainer, collected = recorded
    trainer.config.train.tokens_per_micro_batch = 40
    own = collected.rollouts
    found = trainer.scored(collected, frozenset({"sum_pi_squared_old"})).require("sum_pi_squared_old", "test")
    policy = trainer.accelerator.unwrap_model(trainer.policy)
    for row, tokens in enumerate(own.tokens.tolist()):
        prompt = own.prompts[int(own.prompt[row])]
        logits = policy.model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
        expected = logits.softmax(-1).square().sum(-1).where(own.mask[row], 0.0)
        torch.testing.assert_close(found[row], expected)
    assert trainer.scored(collected, frozenset({"logp_old"})).sum_pi_squared_old is None
    assert policy(own.responses(), 1.0).squares is None
