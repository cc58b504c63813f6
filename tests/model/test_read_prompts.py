"""What a model reads is what its own tokenizer and template make of the row, in every family."""

import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from rlzoo.errors import UserError
from rlzoo.model.tokenizer import Tokenizer
from tests.model.families import BASES, FAMILIES, tokenizer_of

Messages = list[dict[str, str]]

WORDS = some.text(some.sampled_from("ab 1\n.é<|>[]"), min_size=1, max_size=12).filter(str.strip)
MARKS = some.sampled_from(["<s>", "</s>", "<|im_start|>", "<|im_end|>", "[INST]", "<think>", "<start_of_turn>"])
SAID = some.lists(WORDS | MARKS, min_size=1, max_size=4).map("".join).filter(str.strip)
"""Also what spells special tokens."""

read = cache(tokenizer_of)


@some.composite
def conversations(draw: some.DrawFn, said: some.SearchStrategy[str] = SAID) -> Messages:
    """A system message or none, turns, and perhaps words of the model's own at the end."""
    system = [{"role": "system", "content": draw(some.just("") | said)}] if draw(some.booleans()) else []
    turns = [
        {"role": role, "content": draw(said)}
        for _ in range(draw(some.integers(0, 1)))
        for role in ("user", "assistant")
    ]
    begun = [{"role": "assistant", "content": draw(said)}] if draw(some.booleans()) else []
    return [*system, *turns, {"role": "user", "content": draw(said)}, *begun]


def fitting(name: str, messages: Messages) -> Messages:
    """Those that the family's template takes."""
    return [message for message in messages if name != "gemma" or message["role"] != "system"]


def applied(tokenizer: Tokenizer, messages: Messages, **options: Any) -> Any:
    """What transformers itself makes of them."""
    end = "continue_final_message" if messages[-1]["role"] == "assistant" else "add_generation_prompt"
    return tokenizer.backend.apply_chat_template(messages, **{end: True}, **options)


@settings(max_examples=30, deadline=None)
@given(messages=conversations())
@pytest.mark.parametrize("name", FAMILIES)
def test_messages_are_what_the_chat_template_makes_of_them(name: str, messages: Messages) -> None:
    tokenizer, messages = read(FAMILIES[name]), fitting(name, messages)
    assert tokenizer.encode(messages) == applied(tokenizer, messages, tokenize=True)["input_ids"]


@settings(max_examples=30, deadline=None)
@given(messages=conversations(WORDS), begins=some.booleans())
@pytest.mark.parametrize("name", FAMILIES)
def test_a_rendered_prompt_is_the_tokens_of_its_messages(name: str, messages: Messages, begins: bool) -> None:
    tokenizer, messages = read(FAMILIES[name]), fitting(name, messages)
    text = applied(tokenizer, messages, tokenize=False)
    text = text if begins else text.removeprefix("<s>")  # as data have it that were made for a tokenizer to read
    assert tokenizer.is_rendered(text)
    assert tokenizer.encode(text) == tokenizer.encode(messages)


@settings(max_examples=30, deadline=None)
@given(text=SAID)
@pytest.mark.parametrize("name", BASES)
def test_text_is_what_the_tokenizer_reads_but_for_what_it_puts_behind(name: str, text: str) -> None:
    tokenizer, family = read(BASES[name]), BASES[name]
    own = list(tokenizer.backend(text)["input_ids"])
    own = own[:-1] if family.back else own
    twice = family.front and own[:2] == [tokenizer.backend.bos_token_id] * 2
    assert tokenizer.encode(text) == own[twice:]
    assert tokenizer.encode([{"role": "system", "content": ""}, {"role": "user", "content": text}]) == own[twice:]


@settings(max_examples=50, deadline=None)
@given(text=some.text(some.sampled_from("User:[INST] <start>|bc\n1"), max_size=30))
@pytest.mark.parametrize("name", FAMILIES)
def test_words_without_marks_are_not_rendered(name: str, text: str) -> None:
    assert read(FAMILIES[name]).is_rendered(text) == bool(re.match(r"\s*(\[INST\]|<\|[^\s<>]+\|>)", text))


def test_a_template_without_a_system_role_names_the_remedy_and_so_does_one_that_takes_no_prefill() -> None:
    gemma = read(FAMILIES["gemma"])
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]
    with pytest.raises(UserError, match=r"takes no system message, and fails \(System role.*task\.system_prompt out"):
        gemma.encode(asked)
    deaf = tokenizer_of(FAMILIES["chatml"])
    deaf.backend.chat_template = "{% for m in messages %}{{ m.content if m.role == 'user' }}{% endfor %}"
    with pytest.raises(UserError, match=r"takes no last message of the model's .*leave that message out"):
        deaf.encode([asked[1], {"role": "assistant", "content": "It is"}])
    assert gemma.encode(asked[1:])


def test_tools_have_no_place_in_a_rendered_prompt() -> None:
    tokenizer = read(FAMILIES["chatml"])
    with_turns = Tokenizer(tokenizer.backend, tokenizer.stop_tokens, None, True, has_turns=True)
    assert with_turns.encode("1+1?") == tokenizer.encode([{"role": "user", "content": "1+1?"}])
    with pytest.raises(UserError, match=r"rendered with a chat template already.*leave task\.tools"):
        with_turns.encode("<|im_start|>user\n1+1?<|im_end|>\n")
