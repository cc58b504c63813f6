"""How authors' functions that shape advantages, learn from a teacher or know turns are called."""

import uuid
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from objectives import Writer
from tests.objectives.batches import Case
from tests.objectives.references.parts import group_center
from tests.objectives.sources.losses import (
    Config,
    Loss,
    at_the_start,
    broadcast,
    masked_mean,
    per_micro_batch,
    tensors,
    z_scored,
)


def exchange(**given: Any) -> Loss:
    """`calculate_ppl`, and `compute_policy_loss` as the scripts low_ppl.sh and location.sh set it."""

    def loss(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
        (old, mask), advantage = tensors(case), z_scored(case)
        batch = SimpleNamespace(
            batch={"old_log_probs": old, "attention_mask": mask}, non_tensor_batch={"uid": case.group}
        )
        surprise = its.calculate_ppl(batch).batch["ppl_weight"]

        def part(rows: Tensor) -> Tensor:
            here = (None, old[rows], logp[rows], advantage[rows], mask[rows])
            bounds = {"cliprange_low": 0.2, "cliprange_high": 0.28, "use_token_level_loss": True}
            return its.compute_policy_loss(*here, **bounds, ppl_weight=surprise[rows], **given)[0]

        return per_micro_batch(case, part)

    return loss


def shuffle(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_pairwise_purning_grpo_advantage`, and `compute_policy_loss_v2` as dp_actor.py:313 calls it."""
    its.compute_policy_loss_v2.__globals__["VF"] = SimpleNamespace(masked_mean=masked_mean)
    old, mask = tensors(case)
    rewards = at_the_start(case, case.reward)
    advantage, _, pairs = its.compute_pairwise_purning_grpo_advantage(rewards, mask, case.group, purning=True)
    kept = torch.tensor(sorted(row for pair in pairs for row in pair["pair_index"]), dtype=torch.long)
    numbers, total = torch.from_numpy(case.micro_batch)[kept], 0 * logp.sum()
    for number in numbers.unique():
        rows = kept[numbers == number]
        here = (old[rows], logp[rows], advantage[rows], mask[rows], 0.2)
        total = total + its.compute_policy_loss_v2(*here)[0] * len(rows) / len(kept)
    return total


def symmetric(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """Lines 111-142 of `train` with the numbers of imdb_sppo.sh; other_probs is that of actor.py:370-372."""
    old, mask = tensors(case)
    found = its.lines_111_142(
        self=SimpleNamespace(accelerator=SimpleNamespace(device="cpu"), rce_Z=-1.0),
        rollout_data=SimpleNamespace(old_log_prob=old),
        log_prob=logp,
        other_probs=1 - logp.exp(),
        advantages=z_scored(case),
        masks=mask,
        n_samples=mask.sum(),
        clip_range=0.2,
    )
    return 0.5 * found.policy_loss + 0.4 * found.robust_loss


def _teacher(case: Case) -> Tensor:
    return torch.from_numpy(case.logp_teacher)


def verl_opd(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`kl_penalty` with k1 as the advantage of `compute_policy_loss_vanilla` (losses.py:250-270)."""
    old, mask = tensors(case)
    advantage = -its.kl_penalty(logp, _teacher(case), "k1").detach()
    config = Config(clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.2, global_batch_info={})
    return its.compute_policy_loss_vanilla(old, logp, advantage, mask, "token-mean", config)[0]


def opsd(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_loss` with `use_thinking_machines_loss`, for a model whose only token has these log-probs."""
    names = its.compute_loss.__globals__
    names |= {"F": SimpleNamespace(log_softmax=lambda logits, dim: logits)}
    names |= {"nullcontext": nullcontext, "empty_cache": lambda: None}
    trainer = SimpleNamespace(
        use_thinking_machines_loss=True, temperature=1.0, use_ema_teacher=False, fixed_teacher=False
    )

    def part(rows: Tensor) -> Tensor:
        mask = torch.from_numpy(case.mask)[rows]
        known = {"student": logp[rows], "teacher": _teacher(case)[rows]}
        ids = {name: torch.zeros(len(rows), 1 + mask.shape[1], dtype=torch.long) for name in known}

        def model(input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
            values = next(known[name] for name in known if input_ids is ids[name])
            return SimpleNamespace(logits=torch.nn.functional.pad(values, (0, 1))[..., None])

        inputs: dict[str, Any] = {"labels": torch.nn.functional.pad(mask.long() - 1, (1, 0), value=-1) * 100}
        for name in known:
            inputs |= {f"{name}_input_ids": ids[name], f"{name}_attention_mask": ids[name], f"{name}_prompt_length": 1}
        return its.compute_loss(trainer, model, inputs)

    return per_micro_batch(case, part)


def rlsd(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`_build_stgca_advantages` and `compute_policy_loss` with the numbers of rlsd_train.sh, in the first step."""
    means = SimpleNamespace(masked_mean=lambda values, mask, dim=None, eps=0.0: masked_mean(values, mask, dim))
    for function in (its.compute_policy_loss, its.average_loss, its._build_stgca_advantages):
        function.__globals__["VF"] = means
    old, mask = tensors(case)
    advantage, _ = its._build_stgca_advantages(
        teacher_log_probs=_teacher(case),
        student_log_probs=logp,
        advantages=z_scored(case),
        response_mask=mask,
        lam=0.5,
        clip_range=0.2,
    )
    return its.compute_policy_loss(old, logp, advantage, mask, 0.2, 0.28, 3.0, "default", "token")[0]


def sdar(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`update_policy` (dp_actor.py:383-457): run_alfworld_3b.sh over ppo_trainer.yaml, with its entropy bonus."""
    (old, mask), advantage = tensors(case), z_scored(case)
    reference, teacher = torch.from_numpy(case.logp_ref), _teacher(case)

    def part(rows: Tensor) -> Tensor:
        here = (old[rows], logp[rows], advantage[rows], mask[rows])
        policy = its.compute_policy_loss(*here, 0.2, 0.2, 0.2, 3.0, "token-mean")[0]
        kl = its.agg_loss(its.kl_penalty(logp[rows], reference[rows], "low_var_kl"), mask[rows], "token-mean")
        gated: Tensor = its.compute_sdar_loss(logp[rows], teacher[rows], mask[rows], 5.0, "token-mean")[0]
        bonus = its.agg_loss(entropy[rows], mask[rows], "token-mean")
        return policy - 0.001 * bonus + 0.01 * kl + 0.01 * gated

    return per_micro_batch(case, part)


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
        return its.compute_policy_loss(*here, cliprange=0.2)[0]

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
    return its.default_loss_fn(_inputs(case, logp), config).loss / case.mask.sum()


def echo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`default_loss_fn` and `ce_loss_fn`, each over its own count."""
    inputs, writer = _inputs(case, logp), torch.from_numpy(case.writer)
    observed = ((writer == Writer.POLICY).cumsum(1) > 0) & (writer == Writer.ENVIRONMENT)
    policy = prime_rl(its, case, logp, entropy)
    inputs.loss_mask, inputs.loss_weights = observed, 0.1 * observed
    return policy + its.ce_loss_fn(inputs).loss / observed.sum().clamp(min=1)


CHECKS: dict[str, Loss] = {
    "perplexity_shaping(variant=authors)-soft_overlong-dynamic_sampling": exchange(
        use_ppl=True, use_ppl_high=True, alpha=-0.01
    ),
    "position_shaping(variant=authors)-soft_overlong-dynamic_sampling": exchange(
        add_loaction_bonus=True, whether_use_location=True, alpha=0.1
    ),
    "shuffle_r1(variant=authors)": shuffle,
    "symmetric_loss": symmetric,
    "opd(variant=verl)": verl_opd,
    "opsd(variant=authors)": opsd,
    "rlsd(variant=authors)": rlsd,
    "sdar(variant=authors)": sdar,
    "gigpo(variant=authors)": gigpo,
    "dppo(variant=prime_rl)": prime_rl,
    "echo(variant=prime_rl)": echo,
}
