"""What the tasks share about text: prompts, responses, and which problems are held out."""

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from rlzoo.errors import UserError
from rlzoo.tasks.base import Message

_BOX = re.compile(r"\\boxed\s*\{")
_BARE_BOX = re.compile(
    r"\\boxed\s*(-?(?:\d+(?:\.\d+)?|[A-Za-z]|\\pi|\\[dt]?frac\s*(?:\d\s*\d|(?:\{[^{}]*\}\s*){2}))(?![A-Za-z\d]))"
)
_FRAME = re.compile(r"\\(?:fbox|framebox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BOX_OR_BRACE = re.compile(r"\\boxed\s*\{|\\\\(?!boxed)|\\[{}]|[{}]")
_MARKUP = re.compile(r"\\(?:quad|qquad|text|mathrm|[()\[\],;: !\\])|[$*~{}\s]")
_TOGETHER = re.compile(r"[,;]?(?:and|&|\\&)?[,;]?(?:[A-Za-z](?:_\w)?=)?")
_EMPTY = re.compile(r"\\boxed\s*\{[\s.…_?]*")
_BEGUN_BOX = re.compile(r"\\boxed(?!\s*\{[\s.…_?]*\}|\s*[.,;:!?`'\"$*)]|\s+[a-z]{2})")
"""An answer that is begun and not closed."""
_CHOICE = re.compile(r"\b(?:or|either|alternatively|otherwise|else|maybe|perhaps|possibly)\b|^/$", re.IGNORECASE)
_RENDERED = re.compile(r"\s*(?:<s>|<bos>)?\s*(?:<[|\uff5c][^\s<>]+[|\uff5c]>|<start_of_turn>|\[INST\])")
_BEGUN = re.compile(r"<think>\s*(?:</think>\s*)?$")
_END = re.compile(r"[.!?](?:\s|$)")

LONGEST_CHOICE = 40
"""Most characters between two boxes that are alternatives."""

Prompt = str | Sequence[Message]


BEGUN = "begun"
"""The key of a problem's data under which stands what its rendered prompt has begun of the response."""


def prompt_key(prompt: Prompt) -> object:
    """A key that equal prompts share: role, content and further fields of each message.

    The field `name` is left out, as chat templates rarely read it.
    """
    if isinstance(prompt, str):
        return prompt
    return tuple((message["role"], message["content"], *_others(message)) for message in prompt)


def _others(message: Message) -> tuple[str, ...]:
    if len(message) == 2:
        return ()
    others = {key: value for key, value in message.items() if key not in ("role", "content", "name")}
    return (json.dumps(others, sort_keys=True, default=str),) if others else ()


def begun_by(prompt: str) -> str:
    """What a rendered prompt has begun of the response: an opened `<think>`, perhaps closed again; mostly nothing."""
    begun = _BEGUN.search(prompt)
    return begun[0] if begun else ""


def is_rendered(text: str) -> bool:
    """Whether a text begins as the chat templates of common families do: `<|im_start|>`, `[INST]`, ...

    A model's tokenizer knows its own besides: `Tokenizer.is_rendered`.
    """
    return _RENDERED.match(text) is not None


def goes_on(prompt: Prompt) -> bool:
    """Whether the last message is the model's, which a response goes on with."""
    return not isinstance(prompt, str) and prompt[-1]["role"] == "assistant"


def place_of_question(prompt: Sequence[Message]) -> int:
    """Which message asks: the last one that is not the model's."""
    places = (place for place in reversed(range(len(prompt))) if prompt[place]["role"] != "assistant")
    return next(places, len(prompt) - 1)


def asked(prompt: Sequence[Message]) -> str:
    """What the message says that asks."""
    return prompt[place_of_question(prompt)]["content"]


def asking(prompt: Sequence[Message], content: str) -> list[Message]:
    """The messages with another content in the one that asks."""
    place = place_of_question(prompt)
    return [*prompt[:place], {**prompt[place], "content": content}, *prompt[place + 1 :]]


def instructed(prompt: Prompt, instruction: str) -> Prompt:
    """The prompt with the instruction behind the message that asks.

    A blank line separates them, unless the instruction brings its own white space.
    """
    if not instruction:
        return prompt
    if not isinstance(prompt, str):
        return asking(prompt, asked(prompt) + _behind(instruction))
    raise UserError(
        f"task.instruction={instruction!r} cannot be appended: the prompts of this dataset are rendered with a "
        f"chat template already; leave it out"
    )


def uninstructed(prompt: Prompt, instruction: str) -> Prompt:
    """The prompt that `instructed` was given."""
    if not instruction or isinstance(prompt, str):
        return prompt
    return asking(prompt, asked(prompt).removesuffix(_behind(instruction)))


def _behind(instruction: str) -> str:
    """An instruction with what separates it from the text before it."""
    return instruction if instruction[0].isspace() else "\n\n" + instruction


def directed(prompt: Prompt, system: str) -> Prompt:
    """The prompt with this system message, in place of its own if it has one."""
    if not system:
        return prompt
    if isinstance(prompt, str):
        raise UserError(
            f"task.system_prompt={system!r} cannot be set: the prompts of this dataset are rendered with a chat "
            f"template already; leave it out"
        )
    return [{"role": "system", "content": system}, *(message for message in prompt if message["role"] != "system")]


def last_boxed(response: str) -> str | None:
    r"""The content of the last `\boxed{}`; None if there is none or if it is never closed."""
    response = _with_braces(response)
    start = response.rfind(r"\boxed")
    box = _BOX.match(response, start) if start >= 0 else None
    if box is None:
        return None
    end = closing_brace(response, box.end())
    return None if end is None else response[box.end() : end]


def _with_braces(response: str) -> str:
    r"""`\boxed 5` is `\boxed{5}`, `\boxed\frac12` is `\boxed{\frac12}`; frames are boxes where there are no others."""
    if r"\boxed" not in response:
        response = _FRAME.sub(r"\\boxed{", response)
    return _BARE_BOX.sub(r"\\boxed{\1}", response)


def closing_brace(text: str, start: int) -> int | None:
    """Where the brace that is open at `start` closes; None if it never does."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            return brace.start()
    return None


@dataclass(frozen=True)
class Boxes:
    r"""The final `\boxed{}` of a response and those that belong to it.

    Boxes joined by a comma, by *and* or by nothing are one set of answers; those joined by *or* are `alternatives`.
    """

    contents: tuple[str, ...]
    alternatives: bool = False

    def __str__(self) -> str:
        return (r" \text{ or } " if self.alternatives else ", ").join(self.contents)


def final_boxes(response: str) -> Boxes | None:
    r"""The last `\boxed{}` with the outermost box around it and what is joined to it; None if it is not closed.

    A box that holds nothing but dots, and one that is only spoken of (*in `\boxed` as asked*), hold no answer.
    """
    if "\\" not in response:
        return None
    response = _with_braces(response)
    boxes = [(start, end) for start, end in _outermost_boxes(response) if not _EMPTY.fullmatch(response, start, end)]
    if not boxes or _BEGUN_BOX.search(response, boxes[-1][1]):
        return None
    first = len(boxes) - 1
    gaps = [response[left[1] + 1 : right[0]] for left, right in itertools.pairwise(boxes)]
    while first and (_TOGETHER.fullmatch(_MARKUP.sub("", gaps[first - 1])) or _is_choice(gaps[first - 1])):
        first -= 1
    contents = [_BOX.sub("", response[start:end], count=1).strip() for start, end in boxes[first:]]
    return Boxes(tuple(dict.fromkeys(contents)), any(map(_is_choice, gaps[first:])))


def _outermost_boxes(response: str) -> list[tuple[int, int]]:
    """Start and closing brace of every box that is closed and lies in no other, in one pass."""
    opened: list[int | None] = []
    closed: list[tuple[int, int]] = []
    for mark in _BOX_OR_BRACE.finditer(response):
        if mark[0].endswith("{") and mark[0] != r"\{":
            opened.append(None if mark[0] == "{" else mark.start())
        elif mark[0] == "}" and opened and (start := opened.pop()) is not None:
            while closed and closed[-1][0] > start:
                closed.pop()
            closed.append((start, mark.start()))
    return closed


def _is_choice(gap: str) -> bool:
    """Whether the words between two boxes leave it open which of them is meant."""
    sentence = _MARKUP.sub(" ", gap).strip(" .,;")
    return len(sentence) <= LONGEST_CHOICE and _END.search(sentence) is None and _CHOICE.search(sentence) is not None


def question(prompt: Prompt) -> str:
    """What is asked: the last message that is not the model's."""
    return (prompt if isinstance(prompt, str) else asked(prompt)).strip()


def is_held_out(text: str, one_in: int = 8, digest_size: int = 1) -> bool:
    """Whether a problem is held out, by a hash of its text: one in `one_in` is, the same ones on every machine."""
    return int.from_bytes(blake2b(text.encode(), digest_size=digest_size).digest(), "big") % one_in == 0
