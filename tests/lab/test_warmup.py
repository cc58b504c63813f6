"""The warm-up and the model it made that ships."""

import dataclasses
import shlex
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlzoo.commands import main
from rlzoo.config import ModelConfig, TaskConfig, load_config
from rlzoo.errors import UserError
from rlzoo.lab.keys import WarmupConfig
from rlzoo.lab.warmup import _batches, evaluate_folder, make_tokenizer, tokenizer_of, warmup
from rlzoo.model.policy import load_policy
from rlzoo.model.pretrained import EMBEDDED
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.tasks import OWN, demonstrated_task
from rlzoo.tasks.calculator import Calculator

SMALL = (
    *("task.options.digits=1", "hidden_size=32", "intermediate_size=64", "layers=1"),
    *("steps=60", "demonstrations_per_step=32", "learning_rate=1e-2"),
)
TINY: WarmupConfig = load_config(SMALL, WarmupConfig)
CHARACTERS = demonstrated_task(TaskConfig()).characters


def made(folder: Path, **changes: object) -> tuple[Path, list[float]]:
    losses: list[float] = []
    config = dataclasses.replace(TINY, output=str(folder), **changes)
    warmup(config, lambda done, total, loss: losses.append(loss))
    return folder, losses


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()


def test_a_warmup_lowers_the_loss_and_writes_a_folder_that_transformers_loads(tmp_path: Path) -> None:
    folder, losses = made(tmp_path / "new" / "model", clean_fraction=1.0)
    assert len(losses) == TINY.steps
    assert sum(losses[-5:]) < 0.6 * sum(losses[:5])
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    assert model.config.eos_token_id == tokenizer.eos_token_id == model.generation_config.eos_token_id
    model.generate(**tokenizer(["1+23=", "1+2="], padding=True, return_tensors="pt"), max_new_tokens=3)


def test_the_same_seed_makes_the_same_weights_and_another_one_others(tmp_path: Path) -> None:
    first, again, other = (
        weights(made(tmp_path / name, steps=5, seed=seed)[0]) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first if first[name].dim() == 2)


def test_slips_begin_after_the_clean_part() -> None:
    task = demonstrated_task(TaskConfig(TINY.task.name, options=TINY.task.options, problems=1))
    config = dataclasses.replace(TINY, steps=5, clean_fraction=0.4, slip_rate=0.5)
    found, right = (
        _batches(tokenizer_of(task), task, it) for it in (config, dataclasses.replace(config, slip_rate=0.0))
    )
    assert [one.equal(other) for (one, _), (other, _) in zip(found, right, strict=True)] == [True] * 2 + [False] * 3


def test_the_tokenizer_has_one_token_per_character_and_gives_back_what_it_took() -> None:
    tokenizer = make_tokenizer(CHARACTERS)
    assert tokenizer(CHARACTERS)["input_ids"] == list(range(len(CHARACTERS)))
    assert tokenizer.decode(tokenizer("(13,04)43<eos>")["input_ids"], skip_special_tokens=True) == "(13,04)43"
    assert tokenizer("a\n ")["input_ids"] == [tokenizer.unk_token_id] * 3


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("hidden_size=48", "hidden_size=48 must be a multiple of 32"),
        ("slip_rate=1", "slip_rate=1 must be at least 0 and less than 1"),
        ("task.options.digits=10", "digits=10 must be a whole number from 1 to 9"),
        ("task.name=summs", "task.name=summs has no demonstrations; did you mean sums"),
        ("task.name=reasoning_gym:gcd", "has no demonstrations; arithmetic, calculator, knights, sums, planted"),
        ("output={tusk}", "is all that is filled in"),
        ("output={task.x}", "is all that is filled in"),
        ("output=/dev/null/model", "output=/dev/null/model cannot be written: "),
    ],
)
def test_a_bad_number_is_one_error_that_names_it(tmp_path: Path, word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        warmup(load_config([*SMALL, f"output={tmp_path / 'model'}", word], WarmupConfig))
    assert not any(tmp_path.iterdir())


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match=r"output=.* exists"):
        made(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("name", "options", "tools"),
    [("sums", {"digits": 1}, []), pytest.param("calculator", {}, list(Calculator.tools), marks=pytest.mark.slow)],
)
def test_what_the_command_says_next_can_be_typed(
    name: str, options: dict[str, int], tools: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a model"
    words = ["hidden_size=32", "intermediate_size=32", "layers=1", "steps=2", "demonstrations_per_step=2"]
    asked = [f"task.name={name}", *(f"task.options.{key}={value}" for key, value in options.items())]
    assert main(["warmup", *words, *asked, f"output={folder}"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next")]
    next_, rlzoo, train, *then = shlex.split(line)
    assert (next_, rlzoo, train) == ("next", "rlzoo", "train")
    config = load_config(then)
    assert (config.model.name, config.task.name, config.task.options) == (str(folder), name, options)
    assert config.task.tools == tools and bool(load_tokenizer(config.model, config.task).tools) == bool(tools)


@pytest.mark.parametrize("name", sorted(OWN.keys() - {"arithmetic"}))
def test_a_shipped_model_is_small_and_knows_the_characters_of_its_task(name: str) -> None:
    model = ModelConfig(f"embedded:{name}")
    policy = load_policy(model, load_tokenizer(model))
    assert sum(parameter.numel() for parameter in policy.parameters()) <= 1_000_000
    shipped, made = AutoTokenizer.from_pretrained(EMBEDDED / name), tokenizer_of(demonstrated_task(TaskConfig(name)))
    assert shipped.get_vocab() == made.get_vocab() and shipped.chat_template == made.chat_template
    assert sum(file.stat().st_size for file in (EMBEDDED / name).iterdir()) < 4_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("planted_arithmetic", 0.8, 1),
        ("sums", 0.2, 0.6),
    ],
)
def test_a_shipped_model_is_mediocre_when_sampled(name: str, least: float, most: float) -> None:
    accuracies = evaluate_folder(EMBEDDED / name, demonstrated_task(TaskConfig(name)))
    assert least < accuracies["greedy"] < most
    assert 0.25 < accuracies["sampled"] < 0.45
