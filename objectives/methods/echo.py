"""ECHO: a cross entropy on what the environment wrote beside GRPO (Shrivastava et al., arXiv:2605.24517).

    L = L_GRPO + lambda mean over observed tokens of -log pi(o),   lambda = 0.05

What the terminal answers teaches the policy what its actions lead to, also where all responses of a group fail. Open:
GRPO's own settings, and what the cross entropy is divided by; here grpo's, and all observed tokens of the mini-batch.
Variant prime_rl: its default loss (dppo's variant of that name), and alpha = 0.1
(PrimeIntellect-ai/prime-rl@559b447 src/prime_rl/trainer/rl/loss.py:109-161, 246-259, 394; docs/algorithms.md:77).
Left out: observations that warn, tokens chosen by the role of their message.
"""

from objectives.methods.dppo import PRIME_RL
from objectives.methods.grpo import GRPO
from objectives.parts.observation_nll import ObservationNLL
from objectives.zoo import recipe

recipe(
    "echo",
    paper="arXiv:2605.24517",
    summary="GRPO, and the policy learns to predict what the environment answers",
    variants={"paper": (*GRPO, ObservationNLL()), "prime_rl": (*PRIME_RL, ObservationNLL(alpha=0.1))},
    contribution=("observation_nll",),
    doc=__doc__,
)
