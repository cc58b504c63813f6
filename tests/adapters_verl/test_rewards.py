"""A reward in verl's form earns what it earns in verl: held against its own reward managers."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from verl import DataProto
from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
from verl.workers.reward_manager.batch import BatchRewardManager

from objectives import parse
from objectives.adapters.verl.controller import Outcomes
from rlzoo.tasks import Problem
from rlzoo.tasks.reward import ROW, load_reward

Function = Callable[..., Any]


def number(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> float:
    return len(solution_str) + 0.5 * (solution_str == ground_truth) + (data_source == "math")


def scored(solution_str: str, ground_truth: str, **kwargs: Any) -> dict[str, Any]:
    return {"score": kwargs["extra_info"]["index"] + len(kwargs["data_source"]), "acc": solution_str == ground_truth}


async def later(data_source: str, solution_str: str, ground_truth: str, extra_info: Any) -> float:
    return 0.25 + (extra_info["num_turns"] is None) + len(extra_info["rollout_reward_scores"])


def batch(
    data_sources: Sequence[str], solution_strs: Sequence[str], ground_truths: Any, extra_infos: Any
) -> list[float]:
    return [len(text) + it["index"] for text, it in zip(solution_strs, extra_infos, strict=True)]


def rows(text: str) -> DataProto:
    """A row as verl has it: a prompt of one token, and the letters of the response as tokens."""
    tokens = torch.tensor([[ord(letter) for letter in text]])
    mask = torch.ones(1, 1 + len(text), dtype=torch.long)
    tensors = {"prompts": torch.tensor([[1]]), "responses": tokens, "attention_mask": mask}
    row = {"data_source": "math", "reward_model": {"ground_truth": "34"}, "extra_info": {"index": 7}}
    columns = {name: np.array([value], dtype=object) for name, value in row.items()}
    return DataProto(TensorDict(tensors, batch_size=1), columns)


TOKENIZER: Any = SimpleNamespace(decode=lambda ids, skip_special_tokens: "".join(chr(int(token)) for token in ids))


def by_verl(name: str, function: Function, text: str) -> float:
    """What a reward manager of verl gives."""
    if name == "batch":
        manager = BatchRewardManager(TOKENIZER, 0, function)
        return float(manager(rows(text)).sum())
    config = SimpleNamespace(reward={"reward_kwargs": {}})

    async def run() -> float:
        made = get_reward_manager_cls(name)(config, TOKENIZER, function)
        made.loop = asyncio.get_running_loop()
        return float((await made.run_single(rows(text)))["reward_score"])

    return asyncio.run(run())


@pytest.mark.parametrize("text", ["34", "3", "12345"])
@pytest.mark.parametrize(
    ("manager", "function"),
    [("naive", number), ("naive", scored), ("naive", later), ("dapo", number), ("dapo", scored), ("batch", batch)],
)
def test_a_function_earns_what_it_earns_in_verl(manager: str, function: Function, text: str) -> None:
    columns = {"extra_info": {"index": 7}}
    row = {"question": "", "ground_truth": "34", "is_chat": True, "columns": columns}
    problem = Problem("row", [{"role": "user", "content": "1?"}], "34", {"data_source": "math", ROW: row})
    assert load_reward(function)(problem, text)[0] == pytest.approx(by_verl(manager, function, text))


def test_a_row_without_acc_is_as_correct_as_its_reward() -> None:
    rows: Any = {"extra_fields": [{"reward_extra_info": {"acc": True}}, {}, {"reward_extra_info": {"acc": 0.0}}]}
    correct = Outcomes(parse("dapo"), frozenset(), 8)._correctness(rows, torch.tensor([-1.0, 0.5, 1.0]))
    assert correct.tolist() == [1.0, 0.5, 0.0]
