"""Whoever reads a row reads the same: what its model's own tokenizer and template make of it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from rlzoo.commands import main
from rlzoo.rollout.sampler import Sampler
from rlzoo.rollout.transformers_engine import TransformersEngine
from tests.model.families import FAMILIES, backend_of

BEGUN = {"role": "assistant", "content": "It is \\boxed{"}
FIRST = [{"role": "system", "content": ""}, {"role": "user", "content": [{"type": "text", "text": "1 </s> + 0?"}]}]
SMALL = (
    *("rollout.prompts_per_step=4", "rollout.responses_per_prompt=2", "rollout.max_response_tokens=2"),
    *("train.steps=2", "evaluation.problems=4", "evaluation.samples=1", "rollout.rows_per_batch=8"),
)

Prompts = list[tuple[int, ...]]


@dataclass(frozen=True)
class Place:
    """A model, rows in a file, and what transformers makes of them; with `told`, of what a teacher knows more."""

    folder: Path
    backend: PreTrainedTokenizerBase

    def wanted(self, told: str = "") -> set[tuple[int, ...]]:
        """The ids of the rows."""
        return {tuple(self.applied(messages, told.format(n))) for n, messages in enumerate(rows())}

    def applied(self, messages: Sequence[dict[str, Any]], told: str) -> list[int]:
        plain = [{**it, "content": text(it) + (told if it["role"] == "user" else "")} for it in messages]
        end = "continue_final_message" if messages[-1] == BEGUN else "add_generation_prompt"
        found: Any = self.backend.apply_chat_template(plain, tokenize=True, **{end: True})
        return list(found["input_ids"])


def text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def rows() -> list[list[dict[str, Any]]]:
    """Prompts that the model has begun, and one in parts with an empty system message before it."""
    return [FIRST, *([{"role": "user", "content": f"1 + {n}?"}, BEGUN] for n in range(1, 12))]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder, backend = tmp_path_factory.mktemp("readers"), backend_of(FAMILIES["chatml, begins"])
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "max_position_embeddings": 512}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 16}
    Qwen3ForCausalLM(Qwen3Config(vocab_size=len(backend), **size, **heads)).save_pretrained(folder / "model")
    backend.save_pretrained(folder / "model")
    written = [{"prompt": messages, "answer": str(n)} for n, messages in enumerate(rows())]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in written))
    (folder / "mine.yaml").write_text("source: rows.jsonl\ninstruction: ''\nsplit: train\n")
    return Place(folder, backend)


@pytest.fixture
def read(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prompts]:
    """The prompts that the engine is given, in the folder of the rows."""
    generate, prompts = TransformersEngine.generate, Prompts()

    def seen(engine: TransformersEngine, given: Sequence[Sequence[int]], *others: Any) -> Any:
        prompts.extend(map(tuple, given))
        return generate(engine, given, *others)

    monkeypatch.setattr(TransformersEngine, "generate", seen)
    monkeypatch.chdir(place.folder)
    yield prompts


def words(*others: str) -> list[str]:
    return ["task.name=rows.jsonl", "model.name=model", *SMALL, *others]


@pytest.mark.slow
def test_training_evaluation_benchmarks_the_microscope_and_the_look_at_a_task_read_the_same(
    place: Place, read: Prompts
) -> None:
    wanted = place.wanted()
    readers = {
        "train": ["train", *words("output=run")],
        "inspect": ["inspect", "run", "step=0"],
        "eval": ["eval", "run", "evaluation.samples=2"],
        "benchmarks": ["eval", "model", "benchmarks=mine.yaml", "rollout.max_response_tokens=2", "output=evaluated"],
        "task": ["task", *words()[:2], *SMALL[1:3]],
    }
    for name, command in readers.items():
        read.clear()
        assert main(command) == 0
        assert read and set(read) <= wanted, name
        assert name != "benchmarks" or set(read) == wanted


@pytest.mark.slow
def test_a_teacher_reads_the_same_with_what_it_knows_more(
    place: Place, read: Prompts, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = Sampler.prompts, list[list[list[int]]]()
    monkeypatch.setattr(Sampler, "prompts", lambda *given: made.append(make(*given)) or made[-1])
    told = ["objective=grpo+opd", "task.teacher_prompt='{prompt} (it is {answer})'", "output=taught"]
    assert main(["train", *words(*told)]) == 0
    informed = {tuple(prompt) for prompts in made for prompt in prompts} - set(read)
    assert informed and informed <= place.wanted(" (it is {})")
