"""Gradients of the batch inside verl: `python -m benchmarks.normalisation.in_verl FOLDER`, or the same under torchrun.

Runs in the environment of `make test-verl`, on CPUs by `examples/verl_cpu.py`.
"""

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

os.environ["VERL_USE_EXTERNAL_MODULES"] = "examples.verl_cpu"

import torch
import torch.distributed
from tensordict import TensorDict
from torch import Tensor
from torch.distributed.tensor import DTensor
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils
from verl.workers.config import (
    ActorConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    PolicyLossConfig,
    TrainingWorkerConfig,
)
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss

from benchmarks.normalisation.batch import CUTS, GROUPS, LENGTH, MODEL, PROMPTS, RESPONSES, REWARDS, SIZE, save
from objectives import Loop, TokenBatch, parse
from objectives.adapters.columns import columns_of
from objectives.adapters.verl.rows import LIMIT, spread
from objectives.adapters.verl.worker import ZooTrainingWorker

LOSSES: Mapping[str, Mapping[str, Any]] = {
    "token-mean": {},
    "seq-mean-token-mean": {"loss_agg_mode": "seq-mean-token-mean"},
    "kl_cov": {"policy_loss": PolicyLossConfig(loss_mode="kl_cov", kl_cov_ratio=0.1, ppo_kl_coef=1.0)},
    "rlzoo:grpo-kl": {},
    "rlzoo:kl_cov(fraction=0.1)": {},
}
ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29766"}
FLOAT32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}


def worker(kind: type[TrainingWorker]) -> TrainingWorker:
    """The worker with its FSDP2 engine on the embedded model."""
    made = kind(
        TrainingWorkerConfig(
            model_type="language_model",
            model_config=HFModelConfig(
                path=str(MODEL),
                use_remove_padding=False,
                enable_gradient_checkpointing=False,
                override_config={"attn_implementation": "sdpa"},
            ),
            engine_config=FSDPEngineConfig(
                strategy="fsdp2",
                forward_only=False,
                use_torch_compile=False,
                model_dtype="fp32",
                mixed_precision=FLOAT32,
                use_dynamic_bsz=False,
                wrap_policy={"transformer_layer_cls_to_wrap": ["Qwen3DecoderLayer"]},
            ),
            optimizer_config=FSDPOptimizerConfig(lr=1e-3, total_training_steps=10, clip_grad=1e9),
            checkpoint_config=CheckpointConfig(),
        )
    )
    made.reset()
    return made


def old_log_probs() -> Tensor:
    """[32, LENGTH] of a policy that is not the one that is updated."""
    return -2.5 + 0.5 * torch.randn(GROUPS * SIZE, LENGTH, generator=torch.Generator().manual_seed(1))


def share(loss: str, rank: int, ranks: int) -> TensorDict:
    """The rows of a rank as verl's data, with advantages for verl and what the plan reads for the objective."""

    def nested(rows: Any) -> Tensor:
        return torch.nested.as_nested_tensor([torch.as_tensor(row) for row in rows], layout=torch.jagged)

    lengths = torch.tensor([len(response) for response in RESPONSES])
    present, old = torch.arange(LENGTH) < lengths[:, None], old_log_probs()
    reward = REWARDS.view(GROUPS, SIZE)
    advantage = ((reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-6)).view(-1)
    everything: dict[str, Any] = {
        "prompts": [PROMPTS[row // SIZE] for row in range(len(RESPONSES))],
        "responses": RESPONSES,
        "input_ids": [[*PROMPTS[row // SIZE], *response] for row, response in enumerate(RESPONSES)],
        "position_ids": [range(len(PROMPTS[row // SIZE]) + len(each)) for row, each in enumerate(RESPONSES)],
        "response_mask": [torch.ones(len(each), dtype=torch.long) for each in RESPONSES],
        "loss_mask": [torch.ones(len(each), dtype=torch.long) for each in RESPONSES],
        "old_log_probs": [old[row, : len(each)] for row, each in enumerate(RESPONSES)],
        "advantages": [advantage[row].expand(len(each)).clone() for row, each in enumerate(RESPONSES)],
    }
    columns: dict[str, Tensor] = {}
    if ":" in loss:
        objective = parse(loss.removeprefix("rlzoo:"))
        group = torch.arange(len(RESPONSES)) // SIZE
        batch = TokenBatch(mask=present, group=group, reward=REWARDS, correct=REWARDS, logp_old=old, logp=old)
        passes = Loop(objective).begin(batch).passes
        columns = spread(columns_of(objective, passes), present.any(1), nested(everything["response_mask"]))
    rows = torch.arange(len(RESPONSES)).chunk(ranks)[rank].tolist()
    data = {name: nested([values[row] for row in rows]) for name, values in everything.items()}
    data |= {
        name: nested([values[row] for row in rows]) if values.is_nested else values[rows]
        for name, values in columns.items()
    }
    made = TensorDict(data, batch_size=len(rows))
    tensordict_utils.assign_non_tensor(
        made, temperature=1.0, mini_batch_size=len(RESPONSES), global_batch_size=len(RESPONSES), epochs=1
    )
    tensordict_utils.assign_non_tensor(made, **{LIMIT: LENGTH})
    return made


def gradient(made: TrainingWorker, loss: str, cut: int, rank: int, ranks: int) -> Tensor:
    """That of one update on the whole batch."""
    size = GROUPS * SIZE // (cut * ranks)
    kept: list[Tensor] = []

    def step() -> float:
        gradients = [parameter.grad for parameter in made.engine.module.parameters()]
        whole = [each.full_tensor() if isinstance(each, DTensor) else each for each in gradients]
        kept.append(torch.cat([each.flatten().clone() for each in whole]))
        return 1.0

    made.engine.optimizer_step = step
    for name in ("micro_batch_size_per_gpu", "infer_micro_batch_size_per_gpu"):
        object.__setattr__(made.engine_config, name, size)
    if isinstance(made, ZooTrainingWorker):
        made.objective = parse(loss.removeprefix("rlzoo:"))
    else:
        settings = {"strategy": "fsdp2", "rollout_n": SIZE, "ppo_micro_batch_size_per_gpu": size, **LOSSES[loss]}
        made.loss_fn = partial(ppo_loss, config=ActorConfig(**settings))
    made.train_mini_batch(share(loss, rank, ranks))
    return kept[0]


def main(folder: Path) -> None:
    """Every loss, every cut."""
    torch.set_num_threads(1)
    for name, usual in ALONE.items():
        os.environ.setdefault(name, usual)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    plain, zoo = worker(TrainingWorker), worker(ZooTrainingWorker)
    for loss in LOSSES:
        for cut in CUTS:
            found = gradient(zoo if ":" in loss else plain, loss, cut, rank, ranks)
            if rank == 0:
                save(folder, "verl 0.9", loss, cut, ranks, found)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
