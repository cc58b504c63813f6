"""The law of the adapter: inside verl an expression has the gradient that it has in our own loop."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from objectives import names, parse, with_examples
from objectives.peers.verl import VERL
from tests.objectives.zoo_names import TELLING, VARIANTS
from tests.processes import ONE, TWO, launch

TOLERANCE = 1e-5
RANKS = {"one rank": ONE, "two ranks": TWO}
FIRST = [with_examples(name, f"variant={name.variants[0]}") for name in names() if name.variants]
TAUGHT = ["opd(variant=paper)", "opsd(variant=paper)", "rlsd(variant=paper)", "sdar(variant=paper)"]
"""Those of which each reads a teacher in a part of its own."""
QUICK = {"one rank": {*FIRST[::2], *TAUGHT}, "two ranks": {*FIRST[1::6]}}
"""Those that each change tries; the others run each night. How ranks share their work does not depend on the method."""
CASES = [
    pytest.param(ranks, TELLING.get(variant, variant), marks=[] if variant in QUICK[ranks] else [pytest.mark.slow])
    for ranks in RANKS
    for variant in VARIANTS
    if not (parse(variant).reads_micro_batches or VERL.lacking(parse(variant).needs))  # those are refused
]
Measured = Mapping[str, dict[str, Any]]


@pytest.fixture(scope="session")
def measured(request: pytest.FixtureRequest) -> Callable[[str], Measured]:
    """A function of the ranks, for all expressions that this session asks for.

    Expression -> largest relative differences by how micro-batches are cut, and norms of the updates' gradients.
    """
    cases = [item.callspec.params for item in request.session.items if "measured" in item.fixturenames]

    @cache
    def measure(ranks: str) -> Measured:
        asked = [case["asked"] for case in cases if case["ranks"] == ranks]
        printed = launch([*RANKS[ranks], "-m", "tests.adapters_verl.gradients", *dict.fromkeys(asked)])
        found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        assert {each["processes"] for each in found} == {1 if ranks == "one rank" else 2}
        return {each["expression"]: each for each in found}

    return measure


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("ranks", "asked"), CASES)
def test_every_recipe_has_the_gradient_of_our_own_loop(
    ranks: str, asked: str, measured: Callable[[str], Measured]
) -> None:
    found = measured(ranks)[asked]
    assert len(found["differences"]) == 3 and max(found["differences"].values()) <= TOLERANCE, found
    assert all(norm > 1e-3 for norm in found["norms"]), found
