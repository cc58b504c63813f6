"""What `rlzoo objectives` shows."""

import io
import json

import pytest
from rich.console import Console

from objectives import Name, names, parse, with_examples
from rlzoo.commands import main
from rlzoo.report.provenance import MISSING, PROVENANCE
from rlzoo.report.zoo import difference, print_difference, print_objective, print_provenance, print_zoo
from tests.objectives.zoo_names import PARTS, RECIPES, VARIANTS


def printed(show, *arguments) -> str:  # type: ignore[no-untyped-def]
    console = Console(width=80, record=True, highlight=False, markup=False, file=io.StringIO())
    show(*arguments, console)
    return console.export_text()


@pytest.mark.parametrize("expression", VARIANTS)
def test_an_objective_is_shown_in_80_columns_with_its_equation_paper_and_costs(expression: str) -> None:
    objective = parse(expression)
    text = printed(print_objective, expression, objective)
    _, *rest = text.splitlines()
    assert max(len(line) for line in rest) <= 80
    flowing = " ".join(text.split())
    assert " ".join(objective.equation.replace("; ", " ").split()) in flowing
    for part in objective.parts:
        assert part.paper.removeprefix("arXiv:") in text
    assert "update pass" in text


def test_what_each_variant_was_held_against_is_read_in_80_columns() -> None:
    lines = printed(print_provenance, PROVENANCE, MISSING).splitlines()
    for row in PROVENANCE:
        assert f"{row.recipe}({row.variant}): {row.against}; {row.difference}" in lines
    assert max(len(line) for line in lines if not line.startswith("not here")) <= 80
    text = " ".join(line.strip() for line in lines)
    assert all(row.source in text and row.settings in text for row in PROVENANCE)


def test_a_difference_names_what_differs_and_nothing_else() -> None:
    rows = difference(parse("stapo"), parse("dapo+lopti(eta=0.4)"))
    assert [row["part"] for row in rows] == ["soft_overlong", "dynamic_sampling", "s2t", "lopti", "single_pass"]
    assert [bool(row["first"]) for row in rows] == [False, False, True, False, True]
    changed = difference(parse("stapo"), parse("stapo(q=0.5)"))
    assert [row["part"] for row in changed] == ["s2t"]
    assert changed[0]["first"] != changed[0]["second"]
    text = printed(print_difference, parse("stapo"), parse("dapo+lopti(eta=0.4)"))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "token_mean" not in text


def test_every_parameter_of_a_recipe_stands_behind_its_part() -> None:
    objective = parse("stapo")
    parameters = printed(print_objective, "stapo", objective).partition("\n parameter ")[2].partition("\n- ")[0]
    rows = [line.split()[:2] for line in parameters.splitlines() if "=" in line.partition("  ")[0]]
    assert rows == [[part.name, f"{it['name']}={it['value']}"] for part in objective.parts for it in part.parameters()]


def test_two_names_of_one_objective_are_said_to_be_the_same() -> None:
    assert "the same objective: stapo" in printed(print_difference, parse("justrl+s2t"), parse("stapo+clip_higher"))


@pytest.mark.parametrize("whole", [False, True])
def test_the_zoo_is_shown_in_80_columns_and_200_lines_unless_all_is_asked_for(whole: bool) -> None:
    text = printed(print_zoo, names(), whole)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert all(name.name in text for name in names())
    assert whole == (len(text.splitlines()) > 200)


def test_programs_read_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["objectives", "stapo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["equation"] == parse("stapo").equation
    assert main(["objectives", "stapo", "dapo", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["first"]["expression"] == "stapo"
    assert shown["difference"] == difference(parse("stapo"), parse("dapo"))
    assert main(["objectives", "stapo", "dapo", "grpo"]) == 2


@pytest.mark.parametrize("name", [name for name in names() if name.required_parameters], ids=lambda name: name.name)
def test_a_name_that_asks_for_values_has_a_page_with_examples_of_them(
    name: Name, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["objectives", name.name]) == 0
    shown = capsys.readouterr()
    assert (
        f"{name.name} asks for {' and '.join(name.required_parameters)}, for which we know no published value"
        in shown.err
    )
    assert (
        f"{with_examples(name)} is an example" in shown.err
        and f"{name.name}  =  {parse(with_examples(name))}" in shown.out
    )
    assert main(["objectives", name.name, "--json"]) == 2, "an example is not told from a value"


def test_a_part_is_shown_with_what_its_parameters_are_for(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(printed(print_objective, "s2t(q=0.8)", parse("s2t(q=0.8)")).split())
    assert "q=0.8 0.75 [0, 1] quantile of" in text and "tau_p=0.002 0.002 [0, 1] probability below" in text
    assert "eps" not in text.partition("meaning")[2]
    assert main(["objectives", "s2t(q=0.8)", "--json"]) == 0
    (part,) = (it for it in json.loads(capsys.readouterr().out)["parts"] if it["term"] == "s2t(q=0.8)")
    meaning = "quantile of the rare rewarded tokens' entropy below which one is spurious"
    quantile = {"name": "q", "value": 0.8, "default": 0.75, "allowed": "[0, 1]", "meaning": meaning}
    assert quantile in part["parameters"]


@pytest.mark.parametrize("name", [*RECIPES, *PARTS])
def test_every_parameter_says_what_it_may_be_and_what_it_is_for(name: str) -> None:
    for part in parse(name).parts:
        for it in part.parameters():
            assert it["allowed"] and it["meaning"]
