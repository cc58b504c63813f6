"""What the tests share: a tiny model with a character tokenizer, made here; and what a command says of a mistake."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # two test processes share two cores; the models are tiny

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging

from objectives import zoo
from rlzoo.commands import main

CHARACTERS = "0123456789+-="

logging.disable_progress_bar()
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def registers() -> Iterator[None]:
    """Keeps names that a test registers in the zoo, and the modules that register them, from other tests."""
    both: list[dict[str, Any]] = [zoo.PARTS, zoo.RECIPES, zoo.ALIASES]
    before = [dict(register) for register in both]
    yield
    for register, kept in zip(both, before, strict=True):
        for name, entry in register.items():
            module = getattr(entry, "module", getattr(entry, "__module__", ""))
            if module.startswith(("objectives.", "rlzoo.")):
                kept.setdefault(name, entry)  # our own, which is imported once
            elif kept.get(name) is not entry and module != "__main__":
                sys.modules.pop(module, None)
        register.clear()
        register.update(kept)
    zoo._announced.cache_clear()


def character_tokenizer(eos: bool = True, characters: str = CHARACTERS) -> PreTrainedTokenizerFast:
    """One token per character, those of arithmetic unless others are given."""
    names = {character: i for i, character in enumerate([*characters, "<pad>", "<eos>"])}
    backend = Tokenizer(models.WordLevel(names, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    special = {"pad_token": "<pad>"} | ({"eos_token": "<eos>"} if eos else {})
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def save_tiny_model(folder: Path, context: int = 64, eos: bool = True) -> Path:
    """A random Qwen3 of 50,000 parameters."""
    torch.manual_seed(0)
    end = {"eos_token_id": len(CHARACTERS) + 1} if eos else {"eos_token_id": None}
    config = Qwen3Config(
        vocab_size=len(CHARACTERS) + 2,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=context,
        bos_token_id=None,
        pad_token_id=len(CHARACTERS),
        **end,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    character_tokenizer(eos).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random model."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def error_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What `rlzoo WORDS` says of a mistake: one line on the error stream, status 2."""
    assert main([str(word) for word in words]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("rlzoo: error: ")
    return lines[0]


def fault_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What `rlzoo WORDS` says of what it cannot help: one line on the error stream, status 1."""
    assert main([str(word) for word in words]) == 1
    lines = [line for line in capsys.readouterr().err.strip().splitlines() if line.startswith("rlzoo: ")]
    assert len(lines) == 1 and not lines[0].startswith("rlzoo: error: ")
    return lines[0]


def interruptible(command: Sequence[str]) -> subprocess.Popen[str]:
    """A process that SIGINT reaches, also where the tests run in the background and the shell has it ignored."""
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
