"""Calls and answers: what a model writes to call a tool, and what goes back to it."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rlzoo.errors import nearest

LONGEST_ANSWER = 8192
"""Characters of an answer that go back to the model."""
LONGEST_CALL = 65_536
"""Characters of a call that are read."""

MOST_CALLS = 32
"""Calls of a turn that are made."""


@dataclass(frozen=True)
class Answer:
    """What goes back to the model for a call, or for a turn."""

    text: str
    is_error: bool = False
    """Whether the call was malformed, or its tool unknown, raised, or took too long."""
    role: str = "tool"
    """Of the message that it becomes: `tool` for a call; an environment may also speak as `user`."""


TOO_MANY = Answer(f"error: no more than {MOST_CALLS} calls of a turn are made, and there were more", is_error=True)
"""What stands in place of the answers to the others."""


@dataclass(frozen=True)
class Call:
    """A tool's name, and its arguments by name."""

    name: str
    arguments: Mapping[str, Any]


def read_call(text: str, names: Collection[str]) -> Call | Answer:
    """The call of one of these tools, or what the model is told is wrong with it."""
    try:
        read = json.loads(text) if len(text) <= LONGEST_CALL else None
    except (ValueError, RecursionError):
        read = None
    arguments = read.get("arguments", {}) if isinstance(read, dict) else None
    if not isinstance(read, dict) or not isinstance(arguments, dict) or not isinstance(read.get("name"), str):
        return Answer('error: a call is {"name": ..., "arguments": {...}} in JSON', is_error=True)
    if read["name"] not in names:
        close = nearest(read["name"][:100], names)
        return Answer(f"error: there is no tool of that name{close}; there are {', '.join(names)}", True)
    return Call(read["name"], arguments)


def answer_text(value: Any) -> str:
    """What a tool returned as the model reads it: text as it is, anything else as JSON."""
    return shortened(value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False))


def shortened(text: str) -> str:
    """At most `LONGEST_ANSWER` characters, with how many are left out; lone surrogates, which no tokenizer takes,
    become question marks.
    """
    cut = f"\n... {len(text) - LONGEST_ANSWER} characters more" if len(text) > LONGEST_ANSWER else ""
    return text[:LONGEST_ANSWER].encode("utf-8", "replace").decode("utf-8") + cut
