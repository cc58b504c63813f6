"""Variants agree with the functions of others that they name: 40 batches, ratios from e^-3 to e^3.

`sources/functions.json` names the functions, with repository and commit; `sources/vectors.json` has what they gave. The
scripts that ran them (`git show e61ba30:tests/objectives/sources/make.py`, and the files beside it) are in the history
alone. `provenance.csv` says what each variant was compared with.
"""

import json
import re
from collections import defaultdict
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from objectives import Writer, names, parse
from rlzoo.report.provenance import MISSING, PROVENANCE
from tests.objectives.batches import Array, Case, random_case, token_batch, without_holes
from tests.objectives.comparison import evaluate

SOURCES = Path(__file__).parent / "sources"
VECTORS: dict[str, list[list[float]]] = json.loads((SOURCES / "vectors.json").read_text())
FUNCTIONS: dict[str, list[dict[str, str]]] = json.loads((SOURCES / "functions.json").read_text())
RECIPES = [name for name in names() if name.kind == "recipe"]
KINDS = {"code, run", "code, read", "paper's equation", "notes on the paper"}


# ---- batches ----

SEEDS = range(40)


WITHOUT_HOLES = ("fipo", "w_reinforce", "m2po", "otb", "kpo")
"""Whose source takes what a tool wrote for distance, for the end of a response, or for its sign."""
EQUAL_MICRO_BATCHES = ("advantage_reweighting", "lopti")
"""Whose source weighs micro-batches equally, and has them of equal size."""

PAIRS = ("gdpo",)
"""Whose source takes groups of one size, one behind the other."""

EQUAL_GROUPS = ("tpo",)
"""Whose source takes groups of one size."""

EVEN_GROUPS = ("shuffle_r1",)
"""Whose source refuses others; ties it breaks by the order of the rows."""

NO_TIES = ("entropy20",)
"""Whose source takes any of the tokens that tie."""


def source_case(seed: int, expression: str) -> Case:
    """A ragged batch, in half of the cases with holes, ratios from about e^-3 to e^3; in some a group is all right."""
    case = random_case(1000 + seed, extreme=False, moved=True)
    if expression.startswith(WITHOUT_HOLES):
        case = without_holes(case)
    assert case.logp is not None
    moved = np.clip(3 * (case.logp - case.logp_old), -3, 3)
    case = replace(case, logp=case.logp_old + moved)
    if seed % 3 == 0:
        rows = case.group == case.group[0]
        case = replace(case, correct=np.where(rows, 1.0, case.correct))
    if expression.startswith("kl_cov"):  # whose source penalises a token of a micro-batch without covariance, too
        case = replace(case, micro_batch=np.arange(len(case.group)) % 2)
    if expression.startswith(EQUAL_MICRO_BATCHES):
        case = replace(case, micro_batch=equal_micro_batches(len(case.group)))
    if expression.startswith(("dapo", "entropy20")):  # whose punishment goes on growing behind the limit
        case = replace(case, max_length=case.mask.shape[1], heard=np.zeros_like(case.mask))  # and counts every token
    if expression.startswith("echo"):
        case = replace(case, heard=(case.writer != Writer.NONE) & ~case.mask)
    if expression in PAIRS:
        case = with_pairs(case)
    if expression in EQUAL_GROUPS:
        case = with_equal_groups(case)
    if expression.startswith(EVEN_GROUPS):
        case = in_order(with_even_groups(case))
    if expression.startswith(NO_TIES):
        case = without_ties(case, seed)
    return replace(case, reward=case.correct.copy())


def with_even_groups(case: Case) -> Case:
    """The same batch without the last response of each group of an odd number."""
    groups = [(case.group == name).nonzero()[0] for name in np.unique(case.group)]
    return _rows(case, np.sort(np.concatenate([rows[: len(rows) // 2 * 2] for rows in groups])))


def with_equal_groups(case: Case) -> Case:
    """The same batch with as many responses of each group as the smallest has, its first."""
    groups = [(case.group == name).nonzero()[0] for name in np.unique(case.group)]
    size = min(map(len, groups))
    return _rows(case, np.sort(np.concatenate([rows[:size] for rows in groups])))


def with_pairs(case: Case) -> Case:
    """The same batch with the first two responses of each group, group by group."""
    return _rows(case, np.concatenate([(case.group == name).nonzero()[0][:2] for name in np.unique(case.group)]))


def _rows(case: Case, kept: NDArray[np.int64]) -> Case:
    values = {field.name: getattr(case, field.name) for field in fields(case)}
    return replace(case, **{name: value[kept] for name, value in values.items() if isinstance(value, np.ndarray)})


def in_order(case: Case) -> Case:
    """The same batch with random keys that rise from row to row."""
    return replace(case, random_key=np.arange(case.mask.size).reshape(case.mask.shape))


def equal_micro_batches(rows: int) -> NDArray[np.int64]:
    """[N] the smallest number above one of micro-batches of equal size; one if N is prime."""
    parts = min(count for count in range(2, rows + 1) if rows % count == 0)
    return np.arange(rows) % (1 if parts == rows else parts)


def without_ties(case: Case, seed: int) -> Case:
    """The same batch with log-probs and entropies that differ from token to token, by less than its grid."""
    draw = np.random.default_rng([seed, 11])
    order = draw.permutation(case.mask.size).reshape(case.mask.shape) / 2**24
    assert case.logp is not None and case.entropy is not None
    return replace(case, logp=case.logp - order, entropy=case.entropy + order)


def projected(case: Case, seed: int, by_logp: Array, by_entropy: Array) -> list[float]:
    """Two random projections of the push on log-probs and entropies [N, T]; equal pushes have equal ones."""
    draw = np.random.default_rng([seed, 7])
    written = case.writer != Writer.NONE
    pushes = np.stack([by_logp * written, by_entropy * case.mask])
    return [float((pushes * draw.standard_normal(pushes.shape)).sum()) for _ in range(2)]


# ---- comparisons ----


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
    assert VECTORS.keys() == FUNCTIONS.keys()
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
    checks = {variant_of(text): text for text in VECTORS}
    assert len(checks) == len(VECTORS) and said.keys() == checks.keys()
    for variant, size in said.items():
        assert difference(checks[variant], len(SEEDS)) < 1.5 * size + 1e-12


def variant_of(expression: str) -> tuple[str, str]:
    """The recipe of an expression's first term, and its variant."""
    term = re.split(r"[-+]", expression)[0]
    named = re.search(r"variant=(\w+)", term)
    return term.partition("(")[0], named[1] if named else "paper"
