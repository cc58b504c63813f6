"""How the authors' functions that shape advantages or choose responses are called, and where they stand."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.objectives.batches import Case
from tests.objectives.sources.losses import Loss, masked_mean, per_micro_batch, tensors, z_scored

EXCHANGE = (
    "RUCAIBox/Slow_Thinking_with_LLMs",
    "834e1b79a6ebb307cca0c63f0ed4b10f91f1170c",
    "entropy2performance/verl/verl/trainer/ppo/core_algos.py",
)
SHUFFLE = ("xiaomi-research/shuffle-r1", "31d3ff03c38c8527f9cc6f55b572f0cf798fcfbd")
SYMMETRIC = (
    "shashacks/Symmetric_tril",
    "83398814a9ff066b98a17626421605229116f371",
    "src/tril/algorithms/ppo.py",
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
            out: Tensor = its.compute_policy_loss(*here, **bounds, ppl_weight=surprise[rows], **given)[0]
            return out

        return per_micro_batch(case, part)

    return loss


def shuffle(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_pairwise_purning_grpo_advantage`, and `compute_policy_loss_v2` as dp_actor.py:313 calls it."""
    its.compute_policy_loss_v2.__globals__["VF"] = SimpleNamespace(masked_mean=masked_mean)
    old, mask = tensors(case)
    rewards = torch.zeros_like(mask)
    rewards[:, 0] = torch.from_numpy(case.reward)
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
    loss: Tensor = 0.5 * found.policy_loss + 0.4 * found.robust_loss
    return loss


CHECKS: dict[str, tuple[list[tuple[str, str, str, list[str]]], Loss]] = {
    "perplexity_shaping(variant=authors)-soft_overlong-dynamic_sampling": (
        [(*EXCHANGE, ["calculate_ppl", "compute_policy_loss"])],
        exchange(use_ppl=True, use_ppl_high=True, alpha=-0.01),
    ),
    "position_shaping(variant=authors)-soft_overlong-dynamic_sampling": (
        [(*EXCHANGE, ["calculate_ppl", "compute_policy_loss"])],
        exchange(add_loaction_bonus=True, whether_use_location=True, alpha=0.1),
    ),
    "shuffle_r1(variant=authors)": (
        [
            (*SHUFFLE, "shuffle_r1/custom_algos.py", ["compute_pairwise_purning_grpo_advantage"]),
            (*SHUFFLE, "verl/trainer/core_algos.py", ["compute_policy_loss_v2"]),
        ],
        shuffle,
    ),
    "symmetric_loss": ([(*SYMMETRIC, ["111-142"])], symmetric),
}
