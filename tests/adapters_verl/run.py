"""A small run of verl on Ray that writes down what it did: `python -m tests.adapters_verl.run FOLDER EXPRESSION WORDS`.

The device and the inference engine are the examples' stand-ins; everything else is verl's.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.verl_sums import STAND_INS, start, words

SMALL = (
    "data.train_batch_size=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.actor.optim.lr=3e-4",
    "actor_rollout_ref.actor.optim.lr_warmup_steps=0",
    "data.max_response_length=10",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
)
"""Eight prompts in two mini-batches; a learning rate at which the policy moves."""


def main(folder: Path, objective: str, own: Sequence[str]) -> None:
    """Two steps unless the words say otherwise."""
    os.environ["VERL_USE_EXTERNAL_MODULES"] = f"{STAND_INS},tests.adapters_verl.recorded"
    os.environ["RLZOO_RECORD"] = str(folder.resolve())
    start(objective, [*words(2, 0, folder), *SMALL, *own])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
