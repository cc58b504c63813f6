"""Run by test_trl.py in one process and in two: a generation of which dynamic sampling drops groups.

`python -m tests.adapters_trl.refills FOLDER`, or the same under torchrun; prints a line of JSON, a list over processes.
"""

import contextlib
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from torch import Tensor

from tests.adapters_trl.rig import settings, trainer

ARITHMETIC = Dataset.from_dict({"prompt": [f"{i}+{i}-{i}=" for i in range(10, 90)]})


def right(prompts: Sequence[str], completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    """1 for about half of the responses, decided by their tokens alone."""
    return [float(sum(ids) % 2) for ids in completion_ids]


def no_even_one_right(prompts: Sequence[str], completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    """0 for prompts that start with an even number, otherwise 1 for every second response of the prompt."""
    return [float(int(prompt[:2]) % 2 and i % 2) for i, prompt in enumerate(prompts)]


def responses(tokens: Tensor, mask: Tensor) -> list[list[int]]:
    """The tokens of each row that the loss sees."""
    return [row[seen].tolist() for row, seen in zip(tokens, mask, strict=True)]


def main(folder: Path) -> None:
    """One update on 24 rows of all processes."""
    window = 6 // PartialState(cpu=True).num_processes
    args = settings(folder, 4, window, max_steps=1)
    peer = trainer("dapo", args, reward_funcs=no_even_one_right, train_dataset=ARITHMETIC, rollout_func=None)
    with contextlib.redirect_stdout(io.StringIO()):
        peer.train()
    batch, tokens, own = peer._rollout_step.passes[0], peer._tokens, peer._plan.batch
    found = {
        "rows": len(batch.mask),
        "right in each group": batch.correct.view(-1, 4).sum(1).int().tolist(),
        "groups dropped": peer.state.log_history[0]["groups_dropped"],
        "batch": responses(tokens["completion_ids"], batch.mask),
        "own": responses(peer._own_tokens(0)["completion_ids"], own.mask),
    }
    everywhere = gather_object([found])
    if peer.accelerator.is_main_process:
        print(json.dumps(everywhere))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
