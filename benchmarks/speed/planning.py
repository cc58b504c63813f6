"""What an objective adds to a step, alone: prepare, plan and loss, on random rollouts.

    PYTHONPATH=CHECKOUT python benchmarks/speed/planning.py EXPRESSION...

128 rollouts of up to 64 tokens in micro-batches of 32, shortest of 150 times, one thread. The calls are those of any
version of the zoo, so that versions can be compared; `objective_overhead.py` measures a step as training takes it.
"""

import sys
import time

import torch

from objectives import Objective, TokenBatch, parse

REPETITIONS = 150
ROWS, WIDTH, GROUP, MICRO_BATCH = 128, 64, 8, 32


def rollouts() -> TokenBatch:
    """Random ones whose policy has moved."""
    draw = torch.Generator().manual_seed(0)
    length = torch.randint(8, WIDTH + 1, (ROWS,), generator=draw)
    logp, entropy = (sign * torch.rand(ROWS, WIDTH, generator=draw) for sign in (-3, 2))
    right = torch.rand(ROWS, generator=draw) < 0.5
    return TokenBatch(
        mask=torch.arange(WIDTH) < length[:, None],
        length=length,
        group=torch.arange(ROWS) // GROUP,
        reward=right.float(),
        correct=right.float(),
        truncated=length == WIDTH,
        max_length=WIDTH,
        logp_old=logp,
        entropy_old=entropy,
        logp=logp + 0.1 * torch.randn(ROWS, WIDTH, generator=draw),
        entropy=entropy,
        logp_ref=logp,
        logp_sampler=logp,
    )


def work(objective: Objective, batch: TokenBatch) -> None:
    """What one step takes of an objective, with one mini-batch per pass."""
    assert batch.logp is not None and batch.entropy is not None
    for minibatch in objective.passes(objective.prepare(batch)):
        plan = objective.plan(minibatch)
        for rows in torch.arange(ROWS).split(MICRO_BATCH):
            objective.loss(plan, rows, batch.logp[rows].clone().requires_grad_(), batch.entropy[rows]).backward()


def main(expressions: list[str]) -> None:
    """Measures and prints."""
    torch.set_num_threads(1)
    batch = rollouts()
    for objective in map(parse, expressions):
        times = []
        for _ in range(REPETITIONS):
            started = time.perf_counter()
            work(objective, batch)
            times.append(time.perf_counter() - started)
        print(f"{objective!s:28} {1000 * min(times):.2f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
