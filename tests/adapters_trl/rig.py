"""A ZooGRPOTrainer on rollouts that are given, so that everything but the sampling is TRL's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig

from objectives import TokenBatch
from objectives.adapters.trl import ZooGRPOTrainer
from rlzoo.rollout.base import Rollouts
from tests.training.recording import GROUPS, LENGTH, SIZE, rollouts

MODEL = Path(__file__).parents[2] / "rlzoo" / "embedded" / "sums"
WRITABLE, END = 16, 16
"""The embedded model's characters, and its end of sequence."""

Weights = Mapping[str, Tensor]


def embedded() -> Any:
    """The embedded model in float32."""
    return AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)


@cache
def ended_rollouts() -> tuple[Rollouts, TokenBatch]:
    """Ragged rollouts in groups of four; the model wrote them, likely and unlikely tokens in turn."""
    sampled, batch = rollouts()
    tokens, model, generator = sampled.tokens.clone(), embedded(), torch.Generator().manual_seed(0)
    for row, prompt in enumerate(sampled.prompt_tokens()):
        for t in range(LENGTH):
            logits = model(torch.tensor([[*prompt, *tokens[row, :t].tolist()]])).logits[0, -1, :WRITABLE]
            unsure = (logits / 4).softmax(0).multinomial(1, generator=generator)
            tokens[row, t] = logits.argmax() if (row + t) % 2 else unsure
    rows = (~sampled.truncated).nonzero()[:, 0]
    tokens[rows, sampled.lengths[rows] - 1] = END
    return replace(sampled, tokens=tokens), batch


SEED = 3


def settings(folder: Path, per_device: int, window: int, **others: Any) -> GRPOConfig:
    """TRL's configuration: groups of four, up to nine tokens, on the CPU in float32, nothing reported."""
    defaults: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": per_device,
        "gradient_accumulation_steps": window,
        "num_generations": SIZE,
        "max_completion_length": LENGTH,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "max_grad_norm": 0.0,
        "seed": SEED,
        "disable_tqdm": True,
        "lr_scheduler_type": "constant",
        "shuffle_dataset": False,
    }
    return GRPOConfig(**(defaults | others))


def trainer(objective: str, args: GRPOConfig, model: Any = None, **others: Any) -> ZooGRPOTrainer:
    """A trainer of the embedded model whose prompts are the numbers of groups."""
    return ZooGRPOTrainer(
        model or embedded(),
        others.pop("reward_funcs", graded),
        objective,
        args,
        train_dataset=others.pop("train_dataset", Dataset.from_dict({"prompt": [str(i) for i in range(GROUPS)]})),
        processing_class=AutoTokenizer.from_pretrained(MODEL, padding_side="left"),
        rollout_func=others.pop("rollout_func", given),
        **others,
    )


def given(prompts: Sequence[str], trainer: ZooGRPOTrainer) -> dict[str, Any]:
    """The rollouts above, those of this process, in the place of sampled ones."""
    sampled, _ = ended_rollouts()
    first = trainer.accelerator.process_index * len(prompts)
    rows = range(first, first + len(prompts))
    lengths = sampled.lengths.tolist()
    return {
        "prompt_ids": [list(sampled.prompts[int(prompt)]) for prompt in prompts],
        "completion_ids": [sampled.tokens[i, : lengths[i]].tolist() for i in rows],
        "logprobs": [sampled.logp[i, : lengths[i]].tolist() for i in rows],
        "env_mask": [sampled.mask[i, : lengths[i]].int().tolist() for i in rows],
        "row": list(rows),
    }


def graded(row: Sequence[int], **_: Any) -> list[float]:
    """What the rollouts above were worth."""
    _, batch = ended_rollouts()
    return batch.require("reward", "test")[list(row)].tolist()


def thirds(row: Sequence[int], **_: Any) -> list[float]:
    """A second reward of them."""
    _, batch = ended_rollouts()
    return batch.require("rewards", "test")[list(row), 1].tolist()


class Along(TrainerCallback):
    """Keeps the gradient of every update and moves on to given weights instead of following it."""

    def __init__(self, weights: Sequence[Weights]) -> None:
        self.weights, self.gradients = weights, list[Tensor]()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, *, model: Any, **_: Any) -> None:
        self.gradients.append(torch.cat([p.grad.flatten().clone() for p in model.parameters()]))

    def on_step_end(self, args: Any, state: Any, control: Any, *, model: Any, **_: Any) -> None:
        model.load_state_dict(self.weights[state.global_step % len(self.weights)])
