"""A value in one unit is that value in another, and no other one; a day is that day however it is written."""

from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from rlzoo.tasks.boxed_math import equivalent, normalised
from rlzoo.tasks.moments import same_moment

METRES = {"m": 1, "cm": 100, "km": Fraction(1, 1000), "Millimeter": 1000, "厘米": 100}
POWERS = {"{}": 1, "square {}": 2, "{}^3": 3, "{} per second": 1}


@settings(deadline=None, max_examples=40)
@given(some.integers(1, 999), *[some.sampled_from(sorted(METRES))] * 2, *[some.sampled_from(sorted(POWERS))] * 2)
def test_a_value_is_the_same_in_units_of_one_kind_alone(
    value: int, here: str, there: str, one: str, other: str
) -> None:
    gold = rf"{value}\text{{ {one.format(here)}}}"
    ratio = value * (Fraction(METRES[there]) / Fraction(METRES[here])) ** POWERS[one]
    number = rf"\frac{{{ratio.numerator}}}{{{ratio.denominator}}}"
    assert equivalent(gold, rf"{number}\text{{ {one.format(there)}}}")
    assert not equivalent(gold, rf"{number}+1\text{{ {one.format(there)}}}")
    if one != other:
        assert not equivalent(gold, rf"{number}\text{{ {other.format(there)}}}")


@given(*[some.dates(date(1000, 1, 1))] * 2)
def test_a_day_is_that_day_in_every_spelling(day: date, other: date) -> None:
    spellings = [f"{day:%Y-%m-%d}", rf"\text{{{day:%B} {day.day}, {day:%Y}}}", f"{day.day} {day:%b} {day:%Y}"]
    assert all(same_moment(first, second) for first in spellings for second in spellings)
    assert day == other or not any(same_moment(f"{other:%Y-%m-%d}", spelling) for spelling in spellings)


@pytest.mark.parametrize(
    "text", ["km^9" * 100, r"\text{km^9^9^9^9^9^9}", "kilo" * 200, "," * 300 + " for", "degree " * 100]
)
def test_a_hostile_unit_costs_nothing(text: str) -> None:
    assert isinstance(normalised(f"5 {text}"), str)


def test_a_part_of_nothing_is_no_unit_and_degrees_may_be_of_a_temperature() -> None:
    assert not equivalent(r"5\text{ m}", r"5\text{ m/0}")
    assert equivalent(r"20\text{ degrees}", r"20^\circ\text{C}")
    assert not equivalent(r"68^\circ\text{F}", r"68^\circ\text{C}")


def test_a_pound_is_money_where_the_other_side_is() -> None:
    assert equivalent("£5", "5 pounds") and equivalent("£5", r"5 \text{pounds}")
    assert equivalent(r"20 \text{ pounds}", "£20") and not equivalent("£5", "5 lb")
    assert not any(equivalent(euros, r"\$5") for euros in ("5€", r"\euro 5", "€5"))
