"""The law of the adapter: inside verl an expression has the gradient that it has in our own loop."""

import json
from typing import Any

import pytest

from benchmarks.zoo.recipes import expression
from objectives import names, parse
from tests.objectives.zoo_names import TELLING, VARIANTS
from tests.processes import ONE, TWO, launch

TOLERANCE = 1e-5
FIRST = {expression(name, f"variant={name.variants[0]}") for name in names() if name.variants}
EXPRESSIONS = [
    pytest.param(TELLING.get(variant, variant), marks=[] if variant in FIRST else [pytest.mark.slow])
    for variant in VARIANTS
    if not parse(variant).reads_micro_batches and "logp_prompt" not in parse(variant).needs  # refused
]


@pytest.fixture(scope="session", params=[ONE, TWO], ids=["one rank", "two ranks"])
def measured(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Expression -> largest relative differences by how micro-batches are cut, and norms of the updates' gradients; of
    all expressions that this session asks for.
    """
    asked = [item.callspec.params["asked"] for item in request.session.items if "measured" in item.fixturenames]
    printed = launch([*request.param, "-m", "tests.adapters_verl.gradients", *dict.fromkeys(asked)])
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert {each["processes"] for each in found} == {1 if request.param is ONE else 2}
    return {each["expression"]: each for each in found}


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("asked", EXPRESSIONS)
def test_every_recipe_has_the_gradient_of_our_own_loop(measured: dict[str, Any], asked: str) -> None:
    found = measured[asked]
    assert len(found["differences"]) == 3 and max(found["differences"].values()) <= TOLERANCE, found
    assert all(norm > 1e-3 for norm in found["norms"]), found
