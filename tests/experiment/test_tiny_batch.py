"""A part that cannot work is named, with what it forgot, before anything starts; parts that work are let through."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from objectives import names, parse
from objectives.zoo import PARTS, RECIPES, _announced
from rlzoo.experiment.tiny_batch import check_parts
from tests.conftest import error_of
from tests.objectives.zoo_sample import SAMPLE_PAIRS

HEAD = """
from dataclasses import dataclass
import torch
from objectives import Advantage, Aggregate, Mask, Penalty, Ratio, Reward, Select, Surrogate, Weight, register

@register
@dataclass(frozen=True)
class Own({kind}):
    \"\"\"Of a test.\"\"\"

    name = "own"
    {body}
"""
KEEPS, WEIGHT = "def keeps(self, batch):\n        return ", "def weight(self, batch):\n        return "
BROKEN = [
    (
        "Mask",
        KEEPS + "batch.entropy_old > 1",
        ["own: keeps", 'reads = frozenset({"entropy_old"}) to Own'],
    ),
    ("Weight", WEIGHT + "batch.logp_ref.exp()", ["own: weight", 'frozenset({"logp_ref"})']),
    ("Mask", KEEPS + "(batch.logp - batch.logp_old) > 0", ["logp_old and logp", 'frozenset({"logp_old", "logp"})']),
    (
        "Mask",
        KEEPS + "batch.advantage[:, 0] > 0",
        ["keeps returned a tensor [8] of bool", "[N, T] bool (here [8, 6])"],
    ),
    ("Mask", KEEPS + "batch.advantage", ["of float32", "[N, T] bool"]),
    ("Mask", KEEPS + "None", ["returned None", "it must be a tensor"]),
    ("Weight", WEIGHT + "batch.advantage / batch.advantage", ["own: weight returned NaN"]),
    ("Weight", WEIGHT + "batch.advantage.no_such()", ["own: weight raised AttributeError", "my_part.py line"]),
    ("Reward", "def shaping(self, batch):\n        return -batch.mask.float()", ["own: shaping", "[N] (here [8])"]),
    ("Select", "def selects(self, batch):\n        return batch.mask", ["own: selects", "[N] bool"]),
    (
        "Advantage",
        "def advantage(self, reward, group):\n        return reward.mean()",
        ["own: of returned a tensor []"],
    ),
    ("Aggregate", "def coefficients(self, batch, counted):\n        return 1.0", ["own: coefficients returned 1.0"]),
    ("Ratio", "def ratio(self, rows, logp):\n        return logp.mean(1)", ["own: ratio returned a tensor [8]"]),
    (
        "Surrogate",
        "def loss(self, ratio, logp, advantage, bounds, extra):\n        return advantage",
        ["own: loss has no gradient"],
    ),
    ("Penalty", "def penalty(self, rows, logp, entropy):\n        return logp.sum()", ["own: penalty returned"]),
]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The part is there for one test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    _announced.cache_clear()
    PARTS.pop("own", None)
    sys.modules.pop("my_part", None)


@pytest.mark.parametrize(("kind", "body", "says"), BROKEN, ids=lambda it: it if isinstance(it, str) else None)
def test_a_part_that_cannot_work_is_named_before_anything_starts(
    kind: str, body: str, says: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("my_part.py").write_text(HEAD.format(kind=kind, body=body))
    expression = "my_part:own" if kind in ("Advantage", "Aggregate", "Ratio", "Surrogate") else "justrl+my_part:own"
    said = error_of(capsys, "train", f"objective={expression}", "rollout.responses_per_prompt=8")
    assert all(it in said for it in says), said
    assert not Path("runs").exists()


def test_a_part_that_says_what_it_reads_is_let_through() -> None:
    body = 'reads = frozenset({"entropy_old"})\n    ' + KEEPS + "batch.entropy_old > 1"
    Path("my_part.py").write_text(HEAD.format(kind="Mask", body=body))
    check_parts(parse("justrl+my_part:own"))


@pytest.mark.parametrize("expression", [*(name.name for name in names()), *SAMPLE_PAIRS])
def test_whatever_is_in_the_zoo_is_let_through(expression: str) -> None:
    check_parts(parse(expression))


def test_every_variant_is_let_through() -> None:
    for name, recipe in RECIPES.items():
        for variant in recipe.variants:
            check_parts(parse(f"{name}(variant={variant})"))
