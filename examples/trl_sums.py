"""An objective of the zoo inside TRL: the embedded model learns to add through `ZooGRPOTrainer`.

    pip install 'rlzoo-llm[trl]'
    python examples/trl_sums.py objective=stapo steps=60 seed=0 output=runs/trl

    python examples/learning_curve.py runs/trl/trainer_state.json

The settings are those of `rlzoo train objective=stapo`. Prints the accuracy on 512 held-out problems,
8 samples each, before and after; TRL's log and checkpoints are in the output folder.
"""

import sys
from collections.abc import Sequence
from typing import Any

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig

from objectives.adapters.trl import ZooGRPOTrainer
from rlzoo.model.pretrained import EMBEDDED
from rlzoo.tasks.base import Problem
from rlzoo.tasks.sums import Sums

FOLDER = EMBEDDED / "sums"


def data(problems: Sequence[Problem]) -> Dataset:
    """The prompts, and the answers for the reward."""
    return Dataset.from_list([{"prompt": str(problem.prompt), "answer": problem.answer} for problem in problems])


def main(objective: str = "stapo", steps: str = "60", seed: str = "0", output: str = "runs/trl") -> None:
    """Evaluates, trains, evaluates."""
    task, tokenizer = Sums(), AutoTokenizer.from_pretrained(FOLDER, padding_side="left")

    def correctness(
        completions: list[str], completion_ids: list[list[int]], answer: list[str], **_: Any
    ) -> list[float]:
        """1 for a right answer that has an end."""
        rewards = []
        for text, ids, gold in zip(completions, completion_ids, answer, strict=True):
            ended = ids[-1] == tokenizer.eos_token_id
            rewards.append(task.grader(Problem("", "", gold), text).correct if ended else 0.0)
        return rewards

    args = GRPOConfig(
        output_dir=output,
        seed=int(seed),
        max_steps=int(steps),
        num_generations=8,
        per_device_train_batch_size=128,
        gradient_accumulation_steps=4,
        per_device_eval_batch_size=512,
        max_completion_length=24,
        learning_rate=1.5e-4,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=5,
        logging_steps=1,
        save_steps=20,
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
    )
    trainer = ZooGRPOTrainer(
        AutoModelForCausalLM.from_pretrained(FOLDER),
        correctness,
        objective,
        args,
        train_dataset=data(task.train),
        eval_dataset=data(task.held_out[:512]),
        processing_class=tokenizer,
    )
    before = trainer.evaluate()["eval_reward"]
    trainer.train()
    trainer.save_state()
    after = trainer.evaluate()["eval_reward"]
    print(f"held-out avg@8: {before:.1%} before, {after:.1%} after {steps} steps of {objective}, seed {seed}")


if __name__ == "__main__":
    main(**dict(word.split("=", 1) for word in sys.argv[1:]))
