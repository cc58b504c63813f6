"""Run under torchrun by shared_copies.py: steps of the embedded default whose copies are shared.

`python -m torch.distributed.run ... -m tests.training.rank_shards FOLDER`
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.model.accelerator import make_accelerator
from rlzoo.training.checkpoint import save_checkpoint
from rlzoo.training.run import load_trainer
from tests.training.rank_runs import WORDS, one_step

SHARED = ("train.sharding=fsdp", "train.shards=2")
FIRST = 1
"""Steps before the checkpoint; one more comes behind it."""


def main(folder: Path) -> None:
    """Trains a run from its start, and goes on from what one process has saved; writes what happened."""
    accelerator = make_accelerator("float32")
    begun = steps(folder / "several", accelerator, FIRST, *SHARED)
    written = begun + steps(folder / "one", accelerator, FIRST + 1, *SHARED)
    if accelerator.is_main_process:
        (folder / "several.json").write_text(json.dumps(written))
    accelerator.end_training()


def steps(folder: Path, accelerator: Accelerator, last: int, *words: str) -> list[dict[str, Any]]:
    """What each step was, from the run's checkpoint, if it has one, to the `last`, which is saved."""
    experiment = check(load_config([*WORDS, "objective=grpo+kl", f"output={folder}", *words]))
    with load_trainer(experiment, accelerator, RunFolder(folder)) as trainer:
        done = []
        while trainer.progress.step < last:
            done.append(one_step(trainer))
        policy, main = accelerator.unwrap_model(trainer.policy), accelerator.is_main_process
        save_checkpoint(folder / "checkpoints", policy, trainer.optimizer, trainer.progress, keep=9, writes=main)
    accelerator.wait_for_everyone()
    return done


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
