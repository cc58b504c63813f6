"""Loaded into every process of a run of verl: writes down each step's rollouts, and each update's weights and gradient.

`VERL_USE_EXTERNAL_MODULES=...,tests.adapters_verl.recorded RLZOO_RECORD=FOLDER`
"""

import os
from pathlib import Path
from typing import Any

import torch
import transfer_queue
from torch import Tensor
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

from objectives.adapters.verl.controller import ZooPPOTrainer

FOLDER = Path(os.environ["RLZOO_RECORD"])

_compute_advantage = ZooPPOTrainer._compute_advantage
_optimizer_step = FSDPEngine.optimizer_step


def _recorded_step(trainer: ZooPPOTrainer, batch: Any, metrics: dict[str, Any]) -> Any:
    """The outcomes that the trainer reads, in its order, and its controllers' state before and after."""
    before = trainer._controllers
    names = ["prompts", "responses", "response_mask", "rm_scores", "extra_fields", "rollout_log_probs"]
    data = transfer_queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
    real = [not tag.get("is_padding", False) for tag in batch.tags]
    rollouts = trainer._outcomes.batch(data, batch.keys)
    said = data["rollout_log_probs"].to_padded_tensor(0)
    rollouts = rollouts.with_fields(logp_sampler=said).rows(torch.tensor(real))
    done = _compute_advantage(trainer, batch, metrics)
    found = {
        "batch": rollouts.tensors(),
        "max_length": rollouts.max_length,
        **{
            name: [row.tolist() for row, there in zip(data[name].unbind(), real, strict=True) if there]
            for name in ("prompts", "responses")
        },
        "ranks": max(trainer.actor_rollout_wg._dispatch_info["actor"]) + 1,
        "before": before,
        "after": trainer._controllers,
    }
    torch.save(found, FOLDER / f"step_{trainer.global_steps}.pt")
    return done


def _whole(values: Any) -> Tensor:
    return (values.full_tensor() if hasattr(values, "full_tensor") else values).detach().clone()


def _recorded_update(engine: FSDPEngine) -> float:
    parameters = dict(engine.module.named_parameters())
    found = {
        "weights": {name: _whole(value) for name, value in parameters.items()},
        "gradient": torch.cat([_whole(value.grad).flatten() for value in parameters.values()]),
    }
    if torch.distributed.get_rank() == 0:
        torch.save(found, FOLDER / f"update_{len(list(FOLDER.glob('update_*.pt')))}.pt")
    return _optimizer_step(engine)


ZooPPOTrainer._compute_advantage = _recorded_step
FSDPEngine.optimizer_step = _recorded_update
