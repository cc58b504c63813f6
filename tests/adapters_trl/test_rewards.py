"""A reward in TRL's form earns what it earns in TRL: held against the trainer's own caller."""

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import PartialState
from hypothesis import given, settings
from hypothesis import strategies as some
from trl import GRPOTrainer
from trl.trainer.utils import shutdown_event_loop_in_daemon, start_event_loop_in_daemon

from rlzoo.tasks import Problem
from rlzoo.tasks.base import Response
from rlzoo.tasks.reward import ROW, load_reward, weighted


def of_text(completions: Sequence[Any], answer: Sequence[str], **kwargs: Any) -> list[float]:
    texts = [it if isinstance(it, str) else it[0]["content"] for it in completions]
    return [float(a in text) for text, a in zip(texts, answer, strict=True)]


def of_some(prompts: Sequence[Any], completions: Sequence[Any], kind: Sequence[str], **_: Any) -> list[float | None]:
    return [len(str(p)) / 7 if k == "a" else None for p, k in zip(prompts, kind, strict=True)]


def of_others(kind: Sequence[str], completions: Sequence[Any], **_: Any) -> list[float | None]:
    return [2.0 if k == "b" else None for k in kind]


def of_tokens(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    return [len(ids) + sum(ids) / 100 for ids in completion_ids]


def of_all(**kwargs: Any) -> list[float]:
    kwargs["log_metric"]("seen", 1.0)
    kwargs["log_extra"]("seen", [1.0] * len(kwargs["prompts"]))
    left_out = {"prompt", "completion", "reward_model"} & kwargs.keys()
    return [float(len(kwargs["completions"][i])) - len(left_out) for i in range(len(kwargs["prompts"]))]


def of_state(trainer_state: Any, completions: Sequence[Any], **_: Any) -> list[float]:
    return [trainer_state.global_step / trainer_state.max_steps] * len(completions)


def of_tensor(completions: Sequence[Any], **_: Any) -> torch.Tensor:
    return torch.arange(len(completions)) * 0 + 0.5


async def of_later(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float | None]:
    return [float(len(a)) if len(a) > 1 else None for a in answer]


class Called:
    """A callable instance whose call is a coroutine."""

    async def __call__(self, completions: Sequence[Any], **_: Any) -> list[float]:
        return [0.75 for _ in completions]


FUNCTIONS: list[Callable[..., Any]] = [
    *(of_text, of_some, of_others, of_tokens, of_all, of_state, of_tensor, of_later, Called()),
]


@pytest.fixture(scope="module")
def loop() -> Iterator[Any]:
    thread, made, ready = start_event_loop_in_daemon(name="test")
    ready.wait()
    yield made
    shutdown_event_loop_in_daemon(thread, made)


def problem(row: Any) -> Problem:
    """As a dataset makes it of its row."""
    is_chat = not isinstance(row["prompt"], str)
    data = {"question": "", "ground_truth": row["answer"], "is_chat": is_chat, "columns": row}
    return Problem("row", row["prompt"], row["answer"], {ROW: data})


def by_trl(functions: Sequence[Callable[..., Any]], rows: Any, prompts: Any, texts: Any, ids: Any, loop: Any) -> Any:
    """[N, functions] what TRL's trainer has of them, NaN where they have no say."""
    PartialState()
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(device="cpu", is_main_process=True),
        reward_funcs=functions,
        reward_processing_classes=[None] * len(functions),
        reward_func_names=[str(number) for number in range(len(functions))],
        state=SimpleNamespace(global_step=3, max_steps=8),
        environments=None,
        async_loop=loop,
        args=SimpleNamespace(report_to=[]),
        _log_completion_extra=lambda column, values: None,
        _log_metric=lambda name, value: None,
    )
    return GRPOTrainer._calculate_rewards(trainer, rows, prompts, texts, ids)


@settings(max_examples=60, deadline=None)
@given(
    said=some.lists(some.text("ab12 ", max_size=4), min_size=4, max_size=4),
    kinds=some.lists(some.sampled_from("abc"), min_size=4, max_size=4),
    answers=some.lists(some.sampled_from(["1", "12"]), min_size=4, max_size=4),
    chosen=some.lists(some.sampled_from(range(len(FUNCTIONS))), min_size=1, max_size=4),
    is_chat=some.booleans(),
)
def test_functions_earn_what_they_earn_in_trl(
    loop: Any, said: list[str], kinds: list[str], answers: list[str], chosen: list[int], is_chat: bool
) -> None:
    functions = [FUNCTIONS[number] for number in chosen]
    weights = [0.5 + number for number in range(len(functions))]
    rows: list[dict[str, Any]] = [
        {"prompt": [{"role": "user", "content": f"{n}?"}] if is_chat else f"{n}?", "kind": k, "answer": a}
        for n, (k, a) in enumerate(zip(kinds, answers, strict=True))
    ]
    ids = [[ord(letter) for letter in text] for text in said]
    completions = [[{"role": "assistant", "content": text}] if is_chat else text for text in said]
    theirs = by_trl(functions, rows, [row["prompt"] for row in rows], completions, ids, loop)
    total = (theirs * torch.tensor(weights)).nansum(1)
    for number, (row, text) in enumerate(zip(rows, said, strict=True)):
        grade = weighted(
            [load_reward(it)(problem(row), Response.of(text, ids[number], text, 3, 8)) for it in functions], weights
        )
        assert grade.reward == pytest.approx(total[number].item(), rel=1e-5)
        assert grade.is_scored == (not theirs[number].isnan().all())
