"""The engine that compares: math-verify, over latex2sympy and sympy. Bounded neither in time nor in memory."""

import logging
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify
from sympy import Basic, Expr, Float, I, Intersection, N, Rational, S, Set, Union, nsimplify
from sympy.core.relational import Relational
from sympy.logic.boolalg import And

# The pool kills what takes too long; math-verify warns once that it has no time limit of its own.
logging.getLogger("math_verify").setLevel(logging.ERROR)

# Units are the business of rlzoo.tasks.notation: math-verify takes any text and any letter behind a digit for one.
_LATEX = LatexExtractionConfig(
    try_extract_without_anchor=False,
    boxed_match_priority=0,
    normalization_config=replace(LatexExtractionConfig().normalization_config, units=False),
)
_INFINITIES = (S.Infinity, S.NegativeInfinity, S.ComplexInfinity, S.NaN)
_DIGITS = 40
_EQUAL_DIGITS = 30
_LARGE = 10**25
_SIDE_BY_SIDE = re.compile(r"(?<![\w.^])(?<!frac )(?<!binom )\d[\d.]*\s+\.?\d")


@lru_cache(maxsize=4096)
def parsed(latex: str) -> list[Any]:
    """Its meaning, a sympy expression, if it can be parsed, and the text itself; numbers side by side have none."""
    if _SIDE_BY_SIDE.search(latex):  # math-verify adds them
        return [latex]
    meanings: list[Any] = parse(rf"\boxed{{{latex}}}", [_LATEX], extraction_mode="first_match", parsing_timeout=None)
    return [_calculated(meaning) for meaning in meanings]


def _calculated(meaning: Any) -> Any:
    """Infinity, if it comes to that: to math-verify any number equals one that is infinite but not calculated."""
    if isinstance(meaning, Basic) and not isinstance(meaning, Relational | And) and meaning.has(*_INFINITIES):
        return meaning.doit()
    return meaning


def same(gold: Sequence[Any], answer: Sequence[Any]) -> bool:
    """Whether any of the meanings are equal.

    Numbers are compared exactly; but where the gold one has no end as a decimal, and within lists, decimals are taken
    for equal that differ by less than 6 places beyond the leading zeros.
    """
    exact = _exact(gold), _exact(answer)
    wanted, given = map(_evaluated, exact)
    if wanted is None or given is None:
        return _verified(gold, answer)
    may_be_rounded = _has_no_end(gold[0]) and answer[0].has(Float)
    if may_be_rounded and _verified(gold, answer):
        return True
    if not may_be_rounded and abs(wanted) >= _LARGE and not _verified(gold, answer):
        return False
    return _equal_numbers(wanted, given) and _is_no_difference(*exact)


def _verified(gold: Sequence[Any], answer: Sequence[Any]) -> bool:
    zeros = _zeros(gold)
    return bool(
        verify(list(gold), list(answer), 6 + zeros, 15 + zeros, allow_set_relation_comp=True, timeout_seconds=None)
    )


def _exact(meanings: Sequence[Any]) -> Expr | None:
    """The expression that is meant; decimals are taken as they are written, and i alone is imaginary."""
    meaning = next(iter(meanings), None)
    if not isinstance(meaning, Expr) or meaning.has(*_INFINITIES):
        return None
    imaginary = {symbol: I for symbol in meaning.free_symbols if str(symbol) == "i"}
    decimals = {decimal: Rational(str(decimal)) for decimal in meaning.atoms(Float)}
    return meaning.xreplace(decimals | imaginary)


def _evaluated(exact: Expr | None) -> Expr | None:
    """The number that an expression is, to 40 digits, if it is one; what has no digit that is sure is 0."""
    if exact is None:
        return None
    value = N(exact, _DIGITS)
    if isinstance(value, Float) and value._prec == 1:
        return S.Zero
    return value if value.is_number and value.is_finite else None


def _has_no_end(number: Expr) -> bool:
    """Whether no decimal is exactly this number: 1/3 and pi have no end, 1/4 and 0.1 do."""
    exact = nsimplify(number, rational=True) if number.has(Float) or number.is_rational else None
    if not isinstance(exact, Rational):
        return True
    rest = int(exact.q)
    for factor in (2, 5):
        while rest % factor == 0:
            rest //= factor
    return rest != 1


def _equal_numbers(first: Any, second: Any) -> bool:
    """Whether they agree in 30 digits of the smaller one."""
    return bool(abs(first - second) <= Rational(10) ** -_EQUAL_DIGITS * min(abs(first), abs(second)))


def _is_no_difference(first: Any, second: Any) -> bool:
    """False for two numbers, equal in 30 digits, that differ behind them."""
    difference = N(first - second, _DIGITS)
    if getattr(difference, "_prec", 1) == 1 and first.is_rational and second.is_rational:
        return bool((first - second).doit() == 0)  # 1 - 2^{-2019} and 1, of whose difference no digit is sure
    return bool(difference == 0) or getattr(difference, "_prec", 1) == 1  # no digit is sure, or it is complex


def number(latex: str) -> Expr | None:
    """The number that it says, unevaluated; None if there are letters in it or it cannot be parsed."""
    meaning = next(iter(parsed(latex)), None)
    return meaning if isinstance(meaning, Expr) and meaning.is_number else None


def region(alternatives: Sequence[Sequence[str]]) -> Set | None:
    """The union over alternatives of the intersection of inequalities and intervals; None if one is neither."""
    parts = [[_as_set(latex) for latex in conditions] for conditions in alternatives]
    if any(part is None for conditions in parts for part in conditions):
        return None
    return Union(*(_together(conditions) for conditions in parts))


def _together(conditions: Sequence[Set]) -> Set:
    """The values that meet all conditions. If none does, as for `x < 1, x > 2`, the values that meet one."""
    all_of_them = Intersection(*conditions)
    return Union(*conditions) if all_of_them.is_empty else all_of_them


def _as_set(latex: str) -> Set | None:
    meaning = next(iter(parsed(latex)), None)
    if isinstance(meaning, Set):
        return meaning
    if isinstance(meaning, Relational | And):
        try:
            return meaning.as_set()
        except Exception:  # of several unknowns, or of one that sympy cannot solve for
            return None
    return None


def _zeros(gold: Sequence[Any]) -> int:
    """How many zeros the gold answer, if a number, has behind the point: math-verify counts decimals, not digits."""
    try:
        size = abs(float(gold[0]))
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0
    return max(0, -1 - math.floor(math.log10(size))) if 0 < size < math.inf else 0
