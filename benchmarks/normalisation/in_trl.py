"""Gradients of the batch inside TRL: `python -m benchmarks.normalisation.in_trl FOLDER`, or the same under torchrun.

Runs in the environment of `make test-trl`.
"""

import contextlib
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets import Dataset
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.normalisation.batch import CUTS, GROUPS, LENGTH, MODEL, PROMPTS, RESPONSES, REWARDS, SIZE, save
from objectives.adapters.trl import ZooGRPOTrainer

LOSSES: Mapping[str, Mapping[str, Any]] = {
    "dapo": {},
    "grpo": {"loss_type": "grpo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "bnpo": {"loss_type": "bnpo"},
    "dapo, top_entropy_quantile=0.2": {"top_entropy_quantile": 0.2},
    "rlzoo:grpo": {},
    "rlzoo:grpo+entropy20": {},
}
"""As the table calls it -> settings of TRL."""


class Kept(TrainerCallback):
    """The gradient of the only update."""

    gradient: Tensor

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, *, model: Any, **_: Any) -> None:
        self.gradient = torch.cat([parameter.grad.flatten().clone() for parameter in model.parameters()])


def given(prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
    """The rollouts of this process, in the place of sampled ones."""
    first = trainer.accelerator.process_index * len(prompts)
    rows = range(first, first + len(prompts))
    return {
        "prompt_ids": [PROMPTS[int(prompt)] for prompt in prompts],
        "completion_ids": [RESPONSES[row] for row in rows],
        "logprobs": [[0.0] * len(RESPONSES[row]) for row in rows],
        "row": list(rows),
    }


def graded(row: Sequence[int], **_: Any) -> list[float]:
    """What the rollouts are worth."""
    return REWARDS[list(row)].tolist()


def gradient(loss: str, cut: int, ranks: int, folder: Path) -> Tensor:
    """That of one update on the whole batch."""
    args = GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=GROUPS * SIZE // (cut * ranks),
        gradient_accumulation_steps=cut,
        num_generations=SIZE,
        max_completion_length=LENGTH,
        max_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        max_grad_norm=0.0,
        disable_tqdm=True,
        shuffle_dataset=False,
        vllm_importance_sampling_correction=False,
        **LOSSES[loss],
    )
    kept = Kept()
    options: dict[str, Any] = {
        "args": args,
        "train_dataset": Dataset.from_dict({"prompt": [str(group) for group in range(GROUPS)]}),
        "processing_class": AutoTokenizer.from_pretrained(MODEL, padding_side="left"),
        "rollout_func": given,
        "callbacks": [kept],
    }
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    if ":" in loss:
        trainer = ZooGRPOTrainer(model, graded, loss.removeprefix("rlzoo:"), **options)
    else:
        trainer = GRPOTrainer(model, graded, **options)
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    return kept.gradient


def main(folder: Path) -> None:
    """Every loss, every cut."""
    torch.set_num_threads(1)
    processes = PartialState(cpu=True)
    for loss in LOSSES:
        for cut in CUTS:
            found = gradient(loss, cut, processes.num_processes, folder)
            if processes.is_main_process:
                save(folder, "TRL 1.16", loss, cut, processes.num_processes, found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
