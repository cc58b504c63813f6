"""What a row asks: chat messages in the shapes that trainers' data have, or text that a chat template has made."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlzoo.tasks.text import Prompt, asked, goes_on, is_rendered, last_boxed

CONVERSATIONS = ("messages", "conversations")
"""Columns that hold what was said on both sides, as data for supervised training have it."""
_HASHES = re.compile(r"####\s*\S")


def prompt_of(value: Any, is_rendered: Callable[[str], bool] = is_rendered) -> Prompt:
    """Chat messages; plain text only where a chat template has been applied already. Raises ValueError."""
    messages = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if messages and not _are_messages(messages):
        raise ValueError("has a question that is neither text nor chat messages")
    if not messages:
        raise ValueError("has no question")
    read = [_message(message) for message in messages]
    read = read[:-1] if goes_on(read) and not read[-1]["content"] else read  # nothing begun is nothing to go on with
    if not read or not asked(read):
        raise ValueError("has no question")
    if len(read) == 1 and is_rendered(read[0]["content"]):
        return read[0]["content"]
    return read


def _are_messages(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return is_list and all(isinstance(message, Mapping) for message in value)


def _message(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a message says, as text, and what else it has; tables fill in what it has not by null."""
    if not isinstance(role := given.get("role"), str) or not role:
        raise ValueError("has a message without a role")
    others = {key: value for key, value in given.items() if value is not None and key not in ("role", "content")}
    return {"role": role, "content": _text(given.get("content")), **others}


def _text(content: Any) -> str:
    """Of a message, which may be in parts."""
    if isinstance(content, str | None):
        return content or ""
    parts = content if _are_messages(content) else [{}]
    texts = [part.get("text") for part in parts if part.get("type", "text") == "text"]
    if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        raise ValueError("has a message whose content is no text")
    return "".join(map(str, texts))


def parted(prompt: Prompt, column: str) -> tuple[Prompt, str | None]:
    """The prompt, and the solution that stood behind it; None if there is none.

    The model goes on with words of its own that end a prompt. In a column of whole conversations, or where they hold an
    answer, they are the solution.
    """
    if isinstance(prompt, str) or not goes_on(prompt) or len(prompt) == 1:
        return prompt, None
    *before, last = prompt
    text = last["content"]
    is_solution = column.lower() in CONVERSATIONS or last_boxed(text) or _HASHES.search(text)
    return (before, text) if is_solution else (prompt, None)
