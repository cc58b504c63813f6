"""ECHO (arXiv:2605.24517; PrimeIntellect-ai/prime-rl@559b447, loss.py:246-259 and 394, algo/echo.py:41-90).

GRPO + lambda times the mean of -log p over what the environment wrote behind the policy's first token.
"""

from collections.abc import Callable

import numpy as np

from objectives import Writer
from tests.objectives.batches import Case, Flags
from tests.objectives.methods.dppo_reference import RECIPES as DPPO
from tests.objectives.parts_reference import clip, clipped, kl, seq_mean
from tests.objectives.reference import Term


def observing(alpha: float = 0.05) -> Callable[[Case, Flags], Term]:
    """Every observed token of the rows that are trained on has one share."""

    def observation(case: Case, selected: Flags) -> Term:
        observed = np.zeros(case.mask.shape, dtype=bool)
        for row, writers in enumerate(case.writer.tolist()):
            first = writers.index(Writer.POLICY) if Writer.POLICY in writers else len(writers)
            observed[row, first:] = (case.writer[row, first:] == Writer.ENVIRONMENT) & selected[row]
        each = observed * alpha / max(1, observed.sum())
        return Term(-each * np.where(observed, case.current, 0.0), -each, np.zeros(each.shape), each)

    return observation


RECIPES = {
    "echo": clipped(surrogate=clip(), share=seq_mean, penalties=[kl()], observations=[observing()]),
    "echo(variant=prime_rl)": DPPO["dppo(variant=prime_rl)"].__class__(
        **{**vars(DPPO["dppo(variant=prime_rl)"]), "observations": [observing(0.1)]}
    ),
}

COMPOSITIONS = {"justrl+echo(alpha=0.5)": clipped(observations=[observing(0.5)])}
