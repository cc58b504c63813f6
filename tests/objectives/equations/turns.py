"""What equations say of turns, and of what an environment wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from objectives import Writer
from tests.objectives.equations.parser import quotient

if TYPE_CHECKING:
    from tests.objectives.equations.reader import Reader


def _turns(reader: Reader, row: int) -> list[list[int]]:
    """The positions of each turn of a response."""
    at, turn = reader.mask[row].nonzero()[:, 0].tolist(), reader.case.turn[row]
    return [[t for t in at if turn[t] == number] for number in sorted({turn[t] for t in at})]


def returns(reader: Reader, gamma: str) -> None:
    """G: on each token of a turn its reward and those of the turns behind it."""
    result = torch.zeros(reader.mask.shape, dtype=torch.float64)
    for row in range(len(result)):
        turns = _turns(reader, row)
        for number, tokens in enumerate(turns):
            for later, others in enumerate(turns[number:]):
                result[row, tokens] += float(gamma) ** later * float(reader.case.turn_reward[row, others[0]])
    reader.names["G"] = result


def by_state(reader: Reader, omega: str, eps: str | None) -> Tensor:
    result = torch.zeros(reader.mask.shape, dtype=torch.float64)
    for group in reader.groups_of(reader.mask.any(1)):
        rows = group.nonzero()[:, 0].tolist()
        turns = [(row, tokens) for row in rows for tokens in _turns(reader, row)]
        for state in {int(reader.case.turn_state[row, tokens[0]]) for row, tokens in turns}:
            peers = [it for it in turns if reader.case.turn_state[it[0], it[1][0]] == state]
            values = torch.stack([reader.names["G"][row, tokens[0]] for row, tokens in peers])
            if len(values.unique()) > 1:
                centred = values - values.mean()
                scaled = centred if eps is None else quotient(centred, values.std() + float(eps))
                for (row, tokens), value in zip(peers, scaled, strict=True):
                    result[row, tokens] = float(omega) * float(value)
    return result


def observed(reader: Reader) -> Tensor:
    writer = torch.from_numpy(reader.case.writer)
    answers = (writer == Writer.POLICY).cumsum(1) > 0
    return answers & (writer == Writer.ENVIRONMENT) & reader.selected[:, None]
