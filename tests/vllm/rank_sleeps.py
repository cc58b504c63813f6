"""Run under torchrun by test_sleep.py: a few steps whose engine sleeps between its calls.

`python -m torch.distributed.run ... -m tests.vllm.rank_sleeps FOLDER`
"""

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.model.accelerator import gathered, make_accelerator
from rlzoo.model.sharding import local_rows
from rlzoo.training.run import load_trainer
from rlzoo.training.step import Trainer
from tests.vllm.sleeping_engine import weights_of

STEPS = 3
WORDS = (
    "rollout.engine=tests.vllm.sleeping_engine:SleepingVllm",
    "rollout.kv_cache_gib=0.25",
    "rollout.prompts_per_step=6",
    "rollout.responses_per_prompt=4",
    "train.minibatches_per_step=2",
    "train.learning_rate=1e-3",  # at which it shows that an engine is a step behind
    "objective=grpo",
)


def main(folder: Path) -> None:
    """Writes what each step was, of whole weights and of sharded ones."""
    accelerator = make_accelerator("float32")

    def opened(sharding: str) -> AbstractContextManager[Trainer]:
        experiment = check(load_config([*WORDS, f"output={folder / sharding}", f"train.sharding={sharding}"]))
        return load_trainer(experiment, accelerator, RunFolder(folder / sharding))

    with opened("none") as whole, opened("fsdp") as sharded:  # the first vLLM to end takes the process group with it
        trainers = {"none": whole, "fsdp": sharded}
        runs = {sharding: [one_step(trainer) for _ in range(STEPS)] for sharding, trainer in trainers.items()}
        if accelerator.is_main_process:
            (folder / "steps.json").write_text(json.dumps(runs))
        accelerator.wait_for_everyone()


def one_step(trainer: Trainer) -> dict[str, Any]:
    """Its metrics, what was sampled, and how the engine of each process sleeps behind it."""
    metrics, collected = trainer.step()
    worker = trainer.engine.worker  # type: ignore[attr-defined]
    lost = sum(int(weight.isnan().sum()) for weight in weights_of(worker).values())
    return {
        "metrics": metrics,
        "tokens": collected.rollouts.tokens.tolist(),
        "levels": gathered(trainer.accelerator, [worker.level]),
        "lost": gathered(trainer.accelerator, [lost]),
        "weights": sum(weight.numel() for weight in trainer.policy.parameters()),
        "weights_here": sum(local_rows(weight).numel() for weight in trainer.policy.parameters()),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
