"""The law of the adapter: inside TRL an expression has the gradient that it has in our own trainer."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from objectives import names, parse, with_examples
from objectives.peers.trl import TRL
from tests.objectives.zoo_names import TELLING, VARIANTS
from tests.processes import ONE, TWO, launch

TOLERANCE = 1e-5
RANKS = {"one process": ONE, "two processes": TWO}
FIRST = [with_examples(name, f"variant={name.variants[0]}") for name in names() if name.variants]
QUICK = {"one process": {*FIRST[::2]}, "two processes": {*FIRST[1::6]}}
"""Those that each change tries; the night has the others. How processes share their work depends on no method."""
CASES = [
    pytest.param(ranks, TELLING.get(variant, variant), marks=[] if variant in QUICK[ranks] else [pytest.mark.slow])
    for ranks in RANKS
    for variant in VARIANTS
    if not TRL.lacking(parse(TELLING.get(variant, variant)).needs)  # those are refused, as the table says
]
Measured = Mapping[str, dict[str, Any]]


@pytest.fixture(scope="session")
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Measured]:
    """A function of the processes, for all expressions that this session asks for.

    Expression -> largest relative differences by micro-batch size, and norms of the updates' gradients.
    """
    cases = [item.callspec.params for item in request.session.items if "measured" in item.fixturenames]

    @cache
    def measure(ranks: str) -> Measured:
        folder = tmp_path_factory.mktemp("trl")
        asked = [case["asked"] for case in cases if case["ranks"] == ranks]
        printed = launch([*RANKS[ranks], "-m", "tests.adapters_trl.gradients", folder, *dict.fromkeys(asked)])
        found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        assert {each["processes"] for each in found} == {1 if ranks == "one process" else 2}
        return {each["expression"]: each for each in found}

    return measure


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("ranks", "asked"), CASES)
def test_every_recipe_has_the_gradient_of_our_own_trainer(
    ranks: str, asked: str, measured: Callable[[str], Measured]
) -> None:
    found = measured(ranks)[asked]
    assert len(found["differences"]) == 2 and max(found["differences"].values()) <= TOLERANCE, found
    assert all(norm > 1e-3 for norm in found["norms"]), found
