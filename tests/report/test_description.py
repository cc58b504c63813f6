"""What a page about a method needs: LaTeX, the push by ratio, departures, and what goes with it."""

import json
import re

import pytest
from matplotlib.mathtext import MathTextParser

from objectives import ObjectiveError, parse
from rlzoo.report.description import RATIOS, describe, latex
from tests.objectives.zoo_names import PARTS, RECIPES, VARIANTS
from tests.thinned import thinned

WRITTEN = {part.partition("(")[0]: part for part in PARTS}


@pytest.mark.slow
@pytest.mark.parametrize("expression", thinned([*VARIANTS, *PARTS], 3))
def test_the_latex_can_be_set_and_has_every_number_of_the_equation(expression: str) -> None:
    equation = parse(expression).equation
    lines = latex(equation).split(" \\\\\n")
    for line, plain in zip(lines, equation.split("; "), strict=True):
        MathTextParser("path").parse(f"${line}$")
        numbers = re.findall(r"\d+\.\d+(?!\d*e)", plain)
        assert [it for it in re.findall(r"\d+\.\d+", line) if it in numbers] == numbers


@pytest.mark.parametrize("expression", [*RECIPES, *PARTS])
def test_a_description_is_plain_data(expression: str) -> None:
    description = parse(expression).describe()
    assert json.loads(json.dumps(description)) == description


def test_names_and_comparisons_are_mathematics() -> None:
    assert latex("r = pi(y) / pi_old(y)") == r"r  = \pi (y ) / \pi_{\mathrm{old}} (y )"
    assert latex("A *= 0.3 p_old + 0.7") == r"A  \leftarrow  (0.3 p_{\mathrm{old}}  + 0.7) A"
    assert latex("q = sqrt(1 - (p + 1e-06)) <= 1") == r"q  = \sqrt{1 - (p  + 10^{-6})} \leq  1"
    assert latex("I = the top 20% of the tokens") == r"I  = \text{ the top }20\%  \text{ of the tokens }"


@pytest.mark.parametrize("expression", VARIANTS)
def test_an_advantage_of_1_pushes_by_1_where_the_policy_has_not_moved(expression: str) -> None:
    push = describe(parse(expression))["push"]
    at = push["ratio"].index(1.0)
    if expression.startswith("nft"):
        assert push["positive"][at] == -push["negative"][at] == 0.5
    elif expression.startswith(("real", "gvpo", "tpo")):
        assert push["positive"] == sorted(push["positive"], reverse=True) and push["negative"][at] < 0
    else:
        size = pytest.approx(0.9) if expression.startswith("symmetric_loss") else 1.0  # alpha + beta
        assert push["positive"][at] == -push["negative"][at] == size
    assert len(push["positive"]) == len(push["negative"]) == len(RATIOS)
    pulls_back = expression.startswith(("gvpo", "tpo"))  # what has moved too far
    assert pulls_back or min(push["positive"]) >= 0 >= max(push["negative"])


def test_the_push_has_the_bounds_of_the_clip_and_its_modifiers() -> None:
    push = describe(parse("dapo(variant=authors)"))["push"]
    by_ratio = dict(zip(push["ratio"], zip(push["positive"], push["negative"], strict=True), strict=True))
    assert by_ratio[1.28] == (1.28, -1.28) and by_ratio[1.5] == (0.0, -1.5)
    assert by_ratio[0.8] == (0.8, -0.8) and by_ratio[0.7] == (0.7, 0.0)


@pytest.mark.parametrize("expression", ["stapo", "gspo", "rloo", "nft", "reinforce_pp", "dppo"])
def test_what_goes_with_an_objective_can_be_added_and_what_does_not_is_refused(expression: str) -> None:
    found = describe(parse(expression))
    for name in found["combines_with"]:
        names = {part.name for part in parse(f"{expression}+{WRITTEN[name]}").parts}
        assert names >= {name, *(part.name for part in parse(expression).parts)}
    for name, gone in found["replaces"].items():
        assert not {part.name for part in parse(f"{expression}+{WRITTEN[name]}").parts} & set(gone)
    for name in found["excludes"]:
        with pytest.raises(ObjectiveError):
            parse(f"{expression}+{WRITTEN[name]}")
    assert not {*found["combines_with"]} & {*found["replaces"]} and not {*found["replaces"]} & {*found["excludes"]}


def test_departures_are_those_of_the_recipe() -> None:
    found = describe(parse("cispo"))
    assert found["recipe"] == "cispo" and "arXiv:2506.13585" in found["papers"]
    assert [it.split(" ")[0] for it in found["departures"]] == ["Open"]
    assert "advantage" in found["stages"] and found["expression"] == "cispo"
