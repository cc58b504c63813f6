"""The tables of the map say what is in it, and whatever a user wrote is text."""

import csv
import io
import re
from dataclasses import replace

import pytest

import rlzoo
from rlzoo.errors import printable
from rlzoo.lab.map.view import change, comma_separated, markdown
from rlzoo.lab.map.zoo_map import ZooMap
from tests.report.test_page import HOSTILE
from tests.test_shown import FORMULAS, formulas


@pytest.fixture(scope="session")
def small_map(tmp_path_factory: pytest.TempPathFactory) -> ZooMap:
    """Five objectives in two regimes, few batches."""
    names = ["grpo", "dapo", "stapo", "dr_grpo", "justrl"]
    output = tmp_path_factory.mktemp("small")
    return rlzoo.map_objectives(names, regimes=["on_policy", "stale"], batches=8, output=output, progress=False)


def hostile_map(found: ZooMap, text: str = HOSTILE) -> ZooMap:
    """A map whose first expression is somebody's attempt."""
    regimes = []
    for it in found.regimes:
        first = replace(it.behaviours[0], expression=text)
        regimes.append(replace(it, behaviours=[first, *it.behaviours[1:]], left_out={text: text}))
    return replace(found, regimes=regimes)


def test_hostile_text_is_text(small_map: ZooMap) -> None:
    outside_code = re.sub(r"(`+) ?.*?\1", "", markdown(hostile_map(small_map)))
    assert "\\<img" in outside_code and not re.search(r"(?<!\\)<", outside_code)


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_of_a_map_is_a_formula(formula: str, small_map: ZooMap) -> None:
    table = comma_separated(hostile_map(small_map, formula))
    (first, *_) = csv.DictReader(io.StringIO(table))
    assert first["objective"] == f"'{printable(formula)}" and not formulas(table)


def test_a_sign_that_is_not_sure_stands_in_brackets(small_map: ZooMap) -> None:
    for row in small_map.regimes[0].behaviours:
        for it in row.changes.values():
            assert change(it).startswith("(") == (it.sign == 0)
