"""Recurrences along the tokens of a response, without a loop over the tokens."""

from objectives.lazy import Tensor, torch


def recurrence(decay: Tensor, step: Tensor) -> Tensor:
    """[N, T] x with x_t = decay_t x_{t-1} + step_t from x = 0; a token with decay 1 and step 0 is not there.

    By doubling: each round puts the maps of twice as many tokens together, and nothing is divided.
    """
    width, distance = step.shape[1], 1
    while distance < width:
        shifted = torch.nn.functional.pad(step[:, :-distance], (distance, 0))
        earlier = torch.nn.functional.pad(decay[:, :-distance], (distance, 0))
        step = decay * shifted + step
        decay = decay * earlier
        distance *= 2
    return step
