"""OPSD for sampled tokens (arXiv:2601.18734; siyan-zhao/OPSD@590ec26 opsd_trainer.py:686-711).

-mean of sg[log p_teacher - log p] log p: of each response and then of them, or of each micro-batch in the code.
"""

from typing import Any

from tests.objectives.methods.gpg_reference import reinforce
from tests.objectives.methods.opd_reference import taught
from tests.objectives.parts_reference import clipped, micro_batch_mean, seq_mean
from tests.objectives.reference import Reference

PLAIN: dict[str, Any] = {"advantage": taught(current=True), "surrogate": reinforce, "stops_gradients": True}

RECIPES = {
    "opsd": clipped(**PLAIN, share=seq_mean),
    "opsd(variant=authors)": clipped(**PLAIN, share=micro_batch_mean),
}

COMPOSITIONS: dict[str, Reference] = {}
