"""What the tasks share about text: prompts, responses, and which problems are held out."""

import re
from collections.abc import Sequence
from hashlib import blake2b

from rlzoo.errors import UserError
from rlzoo.tasks.base import Message

_BOX = re.compile(r"\\boxed\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)

Prompt = str | Sequence[Message]


def is_rendered(text: str) -> bool:
    """Whether a chat template has been applied already: the text starts with a control token such as `<|im_start|>`."""
    return re.match(r"\s*<\|\w+\|>", text) is not None


def instructed(prompt: Prompt, instruction: str) -> Prompt:
    """The prompt with the instruction behind its last message.

    A blank line separates them, unless the instruction brings its own white space.
    """
    if not instruction:
        return prompt
    text = instruction if instruction[0].isspace() else "\n\n" + instruction
    if not isinstance(prompt, str):
        *before, last = prompt
        return [*before, {**last, "content": last["content"] + text}]
    if is_rendered(prompt):
        raise UserError(
            f"task.instruction={instruction!r} cannot be appended: the prompts of this dataset are rendered with a "
            f"chat template already; leave it out"
        )
    return prompt + text


def last_boxed(response: str) -> str | None:
    r"""The content of the last `\boxed{}`; None if there is none or if it is never closed."""
    start = response.rfind(r"\boxed")
    box = _BOX.match(response, start) if start >= 0 else None
    if box is None:
        return None
    depth = 1
    for brace in _BRACE.finditer(response, box.end()):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            return response[box.end() : brace.start()]
    return None


def is_held_out(text: str, one_in: int, digest_size: int) -> bool:
    """Which side a problem is on, by a hash of its text: one in so many is held out, the same ones on every machine."""
    return int.from_bytes(blake2b(text.encode(), digest_size=digest_size).digest(), "big") % one_in == 0
