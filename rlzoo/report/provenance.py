"""What each variant of each recipe was held against: whose function or equation, at which commit, how far off.

The rows are in `provenance.csv`. `HOW` says what their numbers are. What the functions gave that were run is kept in
`tests/objectives/sources/`, and `tests/objectives/test_sources.py` compares with it.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

HOW = (
    "Numbers marked vectors compare gradients by the tokens' log-probs: of each of 40 random batches two random "
    "projections, the largest difference relative to the largest gradient of its batch; tests calculate them again. "
    "Other numbers were noted when an equation was transcribed; tests hold that equation, calculated apart, not them."
)
KINDS = ("code, run", "code, read", "paper's equation", "notes on the paper")

MISSING = {
    "t_spmo": "arXiv:2504.20834: prefix matching; only the paper's introduction could be had, without its equation, "
    "and no code; it needs token ids, which batches do not have",
    "shuffle_r1's reshuffle": "arXiv:2508.05612: it trains on some rows several times in a step, and a batch has each "
    "once: no weight of an advantage would change the denominators with it",
    "gkd": "arXiv:2306.13649: divergences of whole distributions, and batches hold the sampled tokens' log-probs alone",
    "minillm": "arXiv:2306.08543: its single-step term is a sum over the vocabulary; TRL's trainer needs all logits",
    "sdpo": "arXiv:2601.20802: a divergence over the likeliest tokens of the teacher, whose logits batches do not have",
}
"""Methods that were asked for and are not here, and why."""


@dataclass(frozen=True)
class Provenance:
    """What one variant of a recipe was held against."""

    recipe: str
    variant: str
    against: str
    """`code, run`, `code, read`, `paper's equation` or `notes on the paper`."""
    source: str
    difference: str
    """The largest one, or that it was not run; 0 is no more than rounding."""
    open: str = ""
    """What it leaves open."""
    settings: str = ""
    """Of an authors' variant, what their run script and its default configuration set: entropy, KL, filters, clips."""


with Path(__file__).with_name("provenance.csv").open(encoding="utf-8", newline="") as _rows:
    PROVENANCE = tuple(Provenance(**row) for row in csv.DictReader(_rows))
