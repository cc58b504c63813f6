"""How other people's functions that know turns are called, and where they stand."""

import uuid
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from objectives import Writer
from tests.objectives.batches import Case
from tests.objectives.parts_reference import group_center
from tests.objectives.sources.losses import Loss, broadcast, per_micro_batch, tensors

DRMAS = ("langfengQ/DrMAS", "19c632bc0f75730b6db98d90b5035ee9bb7f66d1", "verl/trainer/ppo/core_algos.py")

PRIME_RL = (
    "PrimeIntellect-ai/prime-rl",
    "559b44772e471d1538537b8805cc77f3824a5e64",
    "src/prime_rl/trainer/rl/loss.py",
)
DEFAULT = ["default_loss_fn", "compute_importance_ratio_and_mismatch_kl", "_safe_mean"]


def gigpo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_gigpo_outcome_advantage` of turns as rows, in `compute_policy_loss` of responses as rows."""
    its.build_step_group.__globals__.update(uuid=uuid, Counter=Counter)
    old, mask = tensors(case)
    turns = [(row, number) for row in range(len(mask)) for number in np.unique(case.turn[row, case.mask[row]])]
    of_turn = [mask[row] * torch.from_numpy(case.turn[row] == number) for row, number in turns]
    first = [(row, int(tokens.argmax())) for (row, _), tokens in zip(turns, of_turn, strict=True)]
    index = np.array([case.group[row] for row, _ in turns])
    batch = SimpleNamespace(
        batch={"input_ids": mask},
        non_tensor_batch={
            "rewards": np.array([case.turn_reward[at] for at in first]),
            "traj_uid": np.array([row for row, _ in turns]),
            "active_masks": np.ones(len(turns)),
            "env_step": np.array([number for _, number in turns]),
        },
    )
    reward = torch.zeros(len(turns), mask.shape[1])
    reward[:, 0] = torch.tensor([case.reward[row] for row, _ in turns])
    of_rows = its.compute_gigpo_outcome_advantage(
        reward,
        its.compute_step_discounted_returns(batch, 0.95).double(),
        torch.stack(of_turn),
        np.array([case.turn_state[at] for at in first]),
        index,
        batch.non_tensor_batch["traj_uid"],
        mode="mean_std_norm",
    )[0]
    advantage = torch.zeros_like(mask)
    for (row, _), values in zip(turns, of_rows, strict=True):
        advantage[row] += values

    def part(rows: Tensor) -> Tensor:
        here = (values[rows] for values in (old, logp, advantage, mask))
        loss: Tensor = its.compute_policy_loss(*here, cliprange=0.2)[0]
        return loss

    return per_micro_batch(case, part)


def _inputs(case: Case, logp: Tensor) -> SimpleNamespace:
    return SimpleNamespace(
        trainer_logprobs=logp,
        inference_logprobs=torch.from_numpy(case.logp_sampler),
        advantages=broadcast(case, group_center(case, case.reward)[0]),
        loss_mask=torch.from_numpy(case.mask),
        loss_weights=None,
    )


def prime_rl(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`default_loss_fn` over its count, as `compute_loss` divides it (loss.py:394)."""
    its.default_loss_fn.__globals__.update(LossOutputs=SimpleNamespace)
    config = SimpleNamespace(dppo_mask_high=0.2, dppo_mask_low=0.2, adv_tau=1.0, kl_tau=1e-3)
    loss: Tensor = its.default_loss_fn(_inputs(case, logp), config).loss / case.mask.sum()
    return loss


def echo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`default_loss_fn` and `ce_loss_fn`, each over its own count."""
    inputs, writer = _inputs(case, logp), torch.from_numpy(case.writer)
    observed = ((writer == Writer.POLICY).cumsum(1) > 0) & (writer == Writer.ENVIRONMENT)
    policy = prime_rl(its, case, logp, entropy)
    inputs.loss_mask, inputs.loss_weights = observed, 0.1 * observed
    loss: Tensor = policy + its.ce_loss_fn(inputs).loss / observed.sum().clamp(min=1)
    return loss


CHECKS: dict[str, tuple[list[tuple[str, str, str, list[str]]], Loss]] = {
    "gigpo(variant=authors)": (
        [
            (
                *DRMAS,
                [
                    "to_hashable",
                    "compute_step_discounted_returns",
                    "compute_gigpo_outcome_advantage",
                    "episode_norm_reward",
                    "build_step_group",
                    "step_norm_reward",
                    "compute_policy_loss",
                    "agg_loss",
                ],
            )
        ],
        gigpo,
    ),
    "dppo(variant=prime_rl)": ([(*PRIME_RL, DEFAULT)], prime_rl),
    "echo(variant=prime_rl)": ([(*PRIME_RL, [*DEFAULT, "ce_loss_fn"])], echo),
}
