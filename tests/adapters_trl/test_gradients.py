"""The law of the adapter: inside TRL an expression has the gradient that it has in our own trainer."""

import json
from typing import Any

import pytest

from objectives import parse
from objectives.peers.trl import TRL
from tests.objectives.zoo_names import TELLING, VARIANTS
from tests.processes import ONE, TWO, launch
from tests.thinned import thinned

TOLERANCE = 1e-5
EXPRESSIONS = [
    expression
    for expression in (TELLING.get(variant, variant) for variant in VARIANTS)
    if not TRL.lacking(parse(expression).needs)  # those are refused, as the table says
]


@pytest.fixture(scope="session", params=[ONE, TWO], ids=["one process", "two processes"])
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Expression -> largest relative differences by micro-batch size, and norms of the updates' gradients."""
    folder = tmp_path_factory.mktemp("trl")
    cases = [item.callspec.params for item in request.session.items if "measured" in item.fixturenames]
    asked = dict.fromkeys(case["expression"] for case in cases if case["measured"] is request.param)
    printed = launch([*request.param, "-m", "tests.adapters_trl.gradients", folder, *asked])
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert {each["processes"] for each in found} == {1 if request.param is ONE else 2}
    return {each["expression"]: each for each in found}


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("expression", thinned(EXPRESSIONS, 2))
def test_every_recipe_has_the_gradient_of_our_own_trainer(measured: dict[str, Any], expression: str) -> None:
    found = measured[expression]
    assert len(found["differences"]) == 2 and max(found["differences"].values()) <= TOLERANCE, found
    assert all(norm > 1e-3 for norm in found["norms"]), found
