"""Variants beside the functions that they name: 40 batches, ratios from e^-3 to e^3, run by `sources/make.py`.

And `provenance.csv`, which says of every variant what it was held against: what is said to be run again is.
"""

import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from objectives import names, parse
from rlzoo.report.provenance import MISSING, PROVENANCE
from tests.objectives.batches import token_batch
from tests.objectives.comparison import evaluate
from tests.objectives.sources.batches import SEEDS, projected, source_case
from tests.objectives.sources.make import CHECKS, FUNCTIONS

VECTORS: dict[str, list[list[float]]] = json.loads((Path(__file__).parent / "sources" / "vectors.json").read_text())
RECIPES = [name for name in names() if name.kind == "recipe"]
KINDS = {"code, run", "code, read", "paper's equation", "notes on the paper"}


@cache
def difference(expression: str, batches: int) -> float:
    """The largest difference of a projection, relative to the largest gradient of a token of its batch."""
    objective, largest = parse(expression), 0.0
    for seed in SEEDS[:batches]:
        case = source_case(seed, expression)
        updates = evaluate(objective, token_batch(case))
        gradients = [(update.gradient.numpy(), update.entropy_gradient.numpy()) for update in updates]
        found = [number for both in gradients for number in projected(case, seed, *both)]
        size = max(1e-12, *(abs(values).max() for both in gradients for values in both))
        largest = max(largest, *(abs(np.subtract(found, VECTORS[expression][seed])) / size))
    return largest


def test_a_variant_is_the_function_that_it_names() -> None:
    assert VECTORS.keys() == CHECKS.keys() == FUNCTIONS.keys()
    for expression in VECTORS:
        assert difference(expression, 5) < 1e-6, expression


@pytest.mark.exhaustive
def test_a_variant_is_the_function_that_it_names_on_all_batches() -> None:
    for expression in VECTORS:
        print(f"{expression:60s} {(found := difference(expression, len(SEEDS))):.0e}")
        assert found < 1e-6, expression


# ---- what is said of it ----------------------------------------------------------------------------------------------


def test_what_a_variant_was_held_against_is_said_once_and_of_authors_always() -> None:
    rows = [(row.recipe, row.variant) for row in PROVENANCE]
    variants = {(name.name, variant) for name in RECIPES for variant in name.variants}
    assert len(set(rows)) == len(rows) and {*rows} <= variants
    assert {*rows} >= {variant for variant in variants if "authors" in variant[1]}
    for row in PROVENANCE:
        assert row.against in KINDS and row.source and row.difference, row
        if "authors" in row.variant:
            assert row.against == "code, run" and row.difference.endswith("vectors"), f"{row}: without their code"
            assert re.search(r"@[0-9a-f]{7}\b", row.source), row
            assert row.settings, f"{row}: what does its run script set?"
        if row.against == "code, run":
            assert re.fullmatch(r"\d(e-\d+)?, vectors", row.difference), f"{row}: what was run is run again"
    assert not {*MISSING} & {name.name for name in names()}


def test_a_source_names_the_whole_path_of_a_file() -> None:
    paths = {(*variant_of(text), file["path"]) for text, files in FUNCTIONS.items() for file in files}
    for row in PROVENANCE:
        for name in re.findall(r"(?<![\w/.-])[\w.-]+\.py\b", row.source):
            assert (row.recipe, row.variant, name) in paths, f"{row.recipe}({row.variant}): in which folder is {name}?"


def test_a_commit_speaks_for_the_authors_of_one_paper() -> None:
    papers = {name.name: name.paper for name in RECIPES}
    speaks_for: dict[str, set[str]] = defaultdict(set)
    for row in PROVENANCE:
        if "authors" in row.variant:
            for commit in re.findall(r"[\w.-]+/[\w.-]+@[0-9a-f]{7}\b", row.source):
                speaks_for[commit].add(papers[row.recipe])
    assert [(commit, found) for commit, found in speaks_for.items() if len(found) > 1] == []


@pytest.mark.exhaustive
def test_what_is_said_to_be_run_again_is_and_its_difference_is_no_larger() -> None:
    said = {
        (row.recipe, row.variant): float(row.difference.split(",")[0])
        for row in PROVENANCE
        if row.difference.endswith("vectors")
    }
    checks = {variant_of(text): text for text in CHECKS}
    assert len(checks) == len(CHECKS) and said.keys() == checks.keys()
    for variant, size in said.items():
        assert difference(checks[variant], len(SEEDS)) < 1.5 * size + 1e-12


def variant_of(expression: str) -> tuple[str, str]:
    """The recipe of an expression's first term, and its variant."""
    term = re.split(r"[-+]", expression)[0]
    named = re.search(r"variant=(\w+)", term)
    return term.partition("(")[0], named[1] if named else "paper"
