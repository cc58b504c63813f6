"""What objectives are called, and what their descriptions say."""

import pytest

from objectives import parse
from tests.objectives.test_algebra import refuses
from tests.objectives.zoo_names import VARIANTS
from tests.objectives.zoo_sample import SETTINGS


@pytest.mark.parametrize("expression", [*VARIANTS, *SETTINGS])
def test_a_description_has_the_actual_numbers(expression: str) -> None:
    description = parse(expression).describe()
    assert description["expression"] == parse(expression).expression
    assert [part["term"] for part in description["parts"]] == [part.term() for part in parse(expression).parts]
    assert all(part["formula"] for part in description["parts"])
    assert parse("s2t(tau_p=0.0123)").describe()["parts"][-4]["formula"].count("0.0123") == 1


@pytest.mark.parametrize("surrogate", ["taper", "divergence_clip", "implicit_negative", "unclipped"])
def test_an_expression_is_not_named_after_a_method_that_has_lost_what_makes_it_one(surrogate: str) -> None:
    assert str(parse(f"grpo+{surrogate}-kl")) == f"grpo+{surrogate}-kl"


def test_white_space_and_case_of_constants_do_not_matter() -> None:
    assert parse("  stapo ( tau_p = 0.005 )\t+ lopti ( ) ") == parse("stapo(tau_p=0.005)+lopti")
    assert parse("stare(adaptive=TRUE)") == parse("stare(adaptive=true)")
    assert parse("lopti(eta=1)") == parse("lopti(eta=1.0)") == parse("lopti(eta=+1e0)")


def test_lengths_that_contradict_each_other_are_refused() -> None:
    refuses("soft_overlong(max_length=100,cache=200)", "cache=200", "max_length=100")
