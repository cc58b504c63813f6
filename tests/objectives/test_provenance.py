"""Every variant says what it was held against, and what is said to be run again is."""

import re
from collections import defaultdict

import pytest

from objectives import MISSING, PROVENANCE, names
from objectives.provenance import KINDS
from tests.objectives.sources.batches import SEEDS
from tests.objectives.sources.make import CHECKS
from tests.objectives.test_sources import difference

RECIPES = [name for name in names() if name.kind == "recipe"]


def test_every_variant_of_every_recipe_is_in_the_table_once() -> None:
    rows = [(row.recipe, row.variant) for row in PROVENANCE]
    assert sorted(rows) == sorted((name.name, variant) for name in RECIPES for variant in name.variants)


@pytest.mark.parametrize("row", PROVENANCE, ids=lambda row: f"{row.recipe}({row.variant})")
def test_a_row_names_its_source(row: object) -> None:
    against, source, found = (getattr(row, name) for name in ("against", "source", "difference"))
    assert against in KINDS
    assert source and found
    if "authors" in row.variant:  # type: ignore[attr-defined]
        assert against == "code, run" and found.endswith("vectors"), "no authors without their code"
        assert re.search(r"@[0-9a-f]{7}\b", source)
    if against == "code, run":
        assert re.fullmatch(r"\d(e-\d+)?, vectors", found), "what was run is run again"


def test_a_commit_speaks_for_the_authors_of_one_paper() -> None:
    papers = {name.name: name.paper for name in RECIPES}
    speaks_for: dict[str, set[str]] = defaultdict(set)
    for row in PROVENANCE:
        if "authors" in row.variant:
            for commit in re.findall(r"[\w.-]+/[\w.-]+@[0-9a-f]{7}\b", row.source):
                speaks_for[commit].add(papers[row.recipe])
    assert [(commit, found) for commit, found in speaks_for.items() if len(found) > 1] == []


@pytest.mark.slow
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


def test_what_is_missing_is_not_there() -> None:
    assert not {*MISSING} & {name.name for name in names()}
