"""Inside TRL and verl the adapters leave prompts to the trainer: what it feeds is what our own loop reads."""

from typing import Any

import pytest
from hypothesis import given, settings
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from objectives.adapters.trl import ZooGRPOTrainer
from tests.model.families import FAMILIES, tokenizer_of
from tests.model.test_read_prompts import SAID, Messages, conversations, fitting

ASKED = conversations().filter(lambda messages: messages[-1]["role"] == "user")
"""TRL and verl close words of the model's own, and begin another turn."""


def of_trl(tokenizer: Any, prompts: list[Any]) -> list[list[int]]:
    """What the adapter's trainer feeds."""
    trainer: Any = object.__new__(ZooGRPOTrainer)
    given = {"processing_class": tokenizer, "tools": None, "chat_template": None, "chat_template_kwargs": {}}
    for name, value in {**given, "environment_factories": None, "_is_vlm": False}.items():
        setattr(trainer, name, value)
    ids, *_ = trainer._tokenize_prompts(prompts)
    return list(ids)


@settings(max_examples=15, deadline=None)
@given(messages=ASKED)
@pytest.mark.parametrize("name", FAMILIES)
def test_messages_are_fed_as_we_read_them(name: str, messages: Messages) -> None:
    ours, messages = tokenizer_of(FAMILIES[name]), fitting(name, messages)
    assert of_trl(ours.backend, [messages]) == [ours.encode(messages)]
    assert create_continuous_token_builder(ours.backend).build_initial_tokens(messages) == ours.encode(messages)


@settings(max_examples=15, deadline=None)
@given(text=SAID)
@pytest.mark.parametrize("name", ["chatml", "chatml, begins", "llama 2"])
def test_text_is_fed_to_trls_model_as_we_read_it(name: str, text: str) -> None:
    ours = tokenizer_of(FAMILIES[name])
    text = text.lstrip().removeprefix("<s>")  # TRL has a token that begins a text twice
    assert of_trl(ours.backend, [f"1{text}"]) == [ours.encode(f"1{text}")]
