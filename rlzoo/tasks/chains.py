r"""Chains of equations: `N = 100 + 3 = 103` says 103, `\frac{1}{3} \approx 0.33` says a third, `104 = 103` nothing."""

import itertools
import re
from dataclasses import dataclass

from sympy import Expr

from rlzoo.tasks.notation import cut
from rlzoo.tasks.symbolic import number

_RELATION = re.compile(r"(?<![<>!:\\])=|\\approx(?![A-Za-z])")
_ORDER = re.compile(r"\\(?:le|ge|ne|in|subset|mid|equiv)(?![A-Za-z])|[<>]")
_NO_NUMBER = re.compile(r"\\(?:[lc]?dots|circ|text|mathrm|b?mod|pmod|sum|prod|int|lim)(?![A-Za-z])|\.\.|[_%:,]")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_UNKNOWN = re.compile("[A-Za-df-z]")
_LITERAL = re.compile(r"[-+]?\d*(?:\.(\d+))?(?:\s*\\(?:times|cdot)\s*10\s*\^\s*(?:\{\s*(-?\d+)\s*\}|(\d)))?")


@dataclass(frozen=True)
class Chain:
    r"""Members, and what stands between neighbours: `=` or `\approx`."""

    members: tuple[str, ...]
    relations: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "Chain":
        """The chain that a text is; inequalities and what has no relation at all are one member."""
        if _ORDER.search(text):
            return cls((text,), ())
        members, relations = cut(text, _RELATION)
        while len(members) > 1 and not members[0]:  # = 103, \approx 4.2
            members, relations = members[1:], relations[1:]
        return cls(tuple(members), tuple(relations))

    @property
    def values(self) -> tuple[str, ...]:
        """What it comes to: what stands before the first rounding, and what stands last."""
        exact = next((place for place in range(len(self.relations)) if self._rounds(place)), -1)
        return tuple(dict.fromkeys((self.members[exact], self.members[-1])))

    @property
    def holds(self) -> bool:
        """False if two of its numbers evidently differ. What is no plain number is taken on trust."""
        if not self.relations:
            return True
        numbers = [(place, value) for place, text in enumerate(self.members) if (value := _number(text)) is not None]
        return all(self._agree(*left, *right) for left, right in itertools.pairwise(numbers))

    def _rounds(self, place: int) -> bool:
        r"""Whether the next member is this one rounded; `\frac{1}{3} = 0.33` counts as well."""
        before, after = self.members[place : place + 2]
        digits = _last_place(after)
        is_decimal = digits is not None and digits < 1 and _last_place(before) is None and _is_number(before)
        return self.relations[place] != "=" or is_decimal

    def _agree(self, first: int, left: Expr, second: int, right: Expr) -> bool:
        """Whether two members are equal, or no further apart than rounding may put them."""
        rounded = any(map(self._rounds, range(first, second)))
        if not rounded and left.is_rational and right.is_rational:
            return bool((left - right).doit() == 0)
        last = max(_last_place(self.members[place]) or 0.0 for place in (first, second)) if rounded else 0.0
        try:
            is_cut_off = last < 1 and bool(abs(right.evalf()) < abs(left.evalf()))
            tolerance = max(last if is_cut_off else last / 2, 1e-9 * abs(left.evalf()))
            error = abs(left - right).evalf()
            return bool(error.is_finite and error <= tolerance)
        except TypeError:  # not to be ordered
            return False


def _is_number(text: str) -> bool:
    """Whether it looks like a number, and has no unknown in it."""
    return _NO_NUMBER.search(text) is None and _UNKNOWN.search(_COMMAND.sub(" ", text)) is None


def _number(text: str) -> Expr | None:
    return number(text) if _is_number(text) else None


def _last_place(text: str) -> float | None:
    r"""The worth of the last digit: 0.01 of 4.20, 10^4 of `1.3 \times 10^5`; None if the text is no such number."""
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        return None
    return float(f"1e{int(literal[2] or literal[3] or 0) - len(literal[1] or '')}")
