"""Texts that end a response."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from rlzoo.rollout.base import Rollouts

EVERY = 8
"""Tokens between looks at what is written."""

Decode = Callable[[Sequence[int]], str]


def text_before(text: str, stop: Sequence[str]) -> str | None:
    """What stands before the first of the stop texts; None if there is none."""
    places = [place for place in map(text.find, stop) if place >= 0]
    return text[: min(places)] if places else None


def cut_at_stop(rollouts: Rollouts, stop: Sequence[str], decode: Decode) -> tuple[Rollouts, list[str]]:
    """The responses up to the token that completes a stop text, and their texts without it; cut ones have ended."""
    if not stop:
        pairs = zip(rollouts.tokens.tolist(), rollouts.lengths.tolist(), strict=True)
        return rollouts, [decode(tokens[:length]) for tokens, length in pairs]
    lengths, truncated, texts = rollouts.lengths.clone(), rollouts.truncated.clone(), list[str]()
    for row, (tokens, length) in enumerate(zip(rollouts.tokens.tolist(), rollouts.lengths.tolist(), strict=True)):
        text = decode(tokens[:length])
        before = text_before(text, stop)
        texts.append(text if before is None else before)
        if before is not None:
            lengths[row], truncated[row] = _shortest(tokens[:length], stop, decode), False
    mask = rollouts.mask & (torch.arange(rollouts.mask.shape[1]) < lengths[:, None])
    cut = {name: getattr(rollouts, name).where(mask, 0) for name in ("tokens", "logp", "entropy", "version")}
    return replace(rollouts, lengths=lengths, truncated=truncated, mask=mask, **cut), texts


def _shortest(tokens: Sequence[int], stop: Sequence[str], decode: Decode) -> int:
    """How many tokens it takes until the text has a stop text."""
    low, high = 0, len(tokens)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if text_before(decode(tokens[:middle]), stop) is not None else (middle, high)
    return high


class Watch:
    """Sees which responses have a stop text, so that an engine need not go on with them; [n] rows as they come."""

    def __init__(self, stop: Sequence[str], decode: Decode) -> None:
        self.stop, self.decode = stop, decode
        self.window = EVERY + max(len(text.encode()) for text in stop)  # no token is less than a byte
        self.written: dict[int, list[int]] = {}

    def go_on(self, rows: Sequence[int], tokens: Sequence[int]) -> list[bool]:
        """Takes a further token of each row; says which rows have no stop text, as far as it has looked."""
        for row, token in zip(rows, tokens, strict=True):
            self.written.setdefault(row, []).append(token)
        if len(self.written[rows[0]]) % EVERY:
            return [True] * len(rows)
        return [not (self._has(row, self.window) and self._has(row, 0)) for row in rows]

    def _has(self, row: int, last: int) -> bool:
        """Whether the text of the `last` tokens, or of all, has one."""
        return text_before(self.decode(self.written[row][-last:]), self.stop) is not None
