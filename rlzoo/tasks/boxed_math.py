r"""Mathematical answers in `\boxed{}`, compared by math-verify.

Math-verify parses the gold answers of common benchmarks differently when they stand bare: 108 of MATH-500's do not even
match themselves. So gold and response go the same way: both are brought into one notation (`rlzoo.tasks.notation`),
freed of labels and units, and parsed as LaTeX in a box. Without math-verify's search for unboxed numbers a response
that does not close its box earns nothing.

An answer says its values, and whether they are a set or a tuple. Of a chain of equations `N = 100 + 3 = 103` says 103,
`\frac{1}{3} \approx 0.33` says a third, `104 = 103` nothing.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from sympy import Expr

from rlzoo.tasks.moments import same_moment
from rlzoo.tasks.notation import alternatives, cut, elements, rewritten, rising, typeset, without_unit
from rlzoo.tasks.symbolic import number, parsed, region, same
from rlzoo.tasks.text import Boxes
from rlzoo.tasks.units import DEGREE, conversion, unit_of

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
        exact = -1 if _words(self.members[exact]) else exact  # whether seven is about 8 is not known
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


ORDER = re.compile(r"[<>]|\\(?:le|ge|ne|infty)(?![A-Za-z])")
"""What intervals and inequalities have."""

_WORDS = r"\\(?:text\w*|mathrm|mbox)\s*\{([^{}\d]*)\}"
_LABEL = re.compile(
    rf"(?:{_WORDS}|([A-Za-z]{{3}}[A-Za-z ]*(?:\b(?:is|are|equals)\b(?!\s+(?:an?\s+)?[A-Za-z]{{2}})|:)))\s*:?\s*(?=\S)"
)
_CHOSEN = re.compile(
    r"^(?:\\text\w*\s*\{\s*)?(?:the )?(?:correct )?(?:option|choice|answer)(?: is)?\s*:?\s*\}?\s*:?"
    r"\s*\(?([A-Z])\)?(?:\.?\s*\}?$|\s*(?=:\s*[^:]*$))",
    re.IGNORECASE,
)
_IS = re.compile(
    r"(?:\b(?:is|are|was|were|will be|equals|takes?|costs?|has|have|needs?|earns?|pays?|year|"
    r"approximately|about|roughly|around|exactly)|[:=])\s*$",
    re.IGNORECASE,
)
_CHANGES_THE_VALUE = re.compile(
    r"\b(?:not?|never|least|most|less|more|than|between|or|except|(?:twice|half|double) (?:of|the))\b|n't",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"\\(?:text\w*|mathrm|mbox)\s*\{([^{}\d]*[A-Za-z]\s)(-?\d(?:[\d.,]*\d)?)\.?([^{}\d]*)\}")
_NAME = r"[A-Za-z](?:_\w|_\s*\{[^{}]*\})?"
_MEMBER = re.compile(rf"{_NAME}\s*\\in(?![A-Za-z])\s*(?=\S)")
_DOMAIN = re.compile(rf"[,;(\s]\s*(?:\\text\s*\{{[^{{}}]*\}}\s*)?\(?{_NAME}\s*\\in\s*\\mathbb\W*[A-Z]\W*$")
_FOR_ALL = re.compile(
    r"[,\s]{0,3}(?:\\text\s?\{)?[,\s]{0,3}for (?:all|any|every|each)\b(?!.*\b(?:but|where|if)\b)[^=<>\d]{0,40}$"
)
_BUILDER = re.compile(
    rf"\\\{{\s*{_NAME}(?:\s*\\in\s*\\mathbb\W*[A-Z]\W*?)?\s*(?:\\mid(?![A-Za-z])|[:|])(.*)\\\}}", re.DOTALL
)
_BASE_WORDS = re.compile(r"\s+\(?\s*(?:in\s+)?base[\s-]*(\w+)\s*\)?\s*$", re.IGNORECASE)
_BASE = re.compile(
    r"\(?\s*(?:\\text\s*\{)?(-?[\dA-Fa-f.]*\d[\dA-Fa-f.]*|[A-F]{2,}|[a-f]{2,}(?=[\s})_{(]*16\b))\s*\}?\s*\)?\s*_\s*\{?\s*\(?(?:\\text\s*\{)?(\w+)[\s})]*"
)
_BASES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SIGN = re.compile(r"\\[pm][pm](?![A-Za-z])")
_MOST_SIGNS = 4


@dataclass(frozen=True)
class Reading:
    """Values, in their order; `kind` is what the brackets around several of them say."""

    values: tuple[str, ...]
    kind: Literal["set", "tuple", "other"] = "other"

    @property
    def latex(self) -> str:
        """The values as a list that the engine takes for a set, or the one value."""
        return ", ".join(self.values)


@dataclass(frozen=True)
class MathAnswer:
    """An answer in plain notation.

    `readings` is one, or two for an exact value with its rounded one behind it. `regions` are the conditions of
    inequalities, joined by *and*, of each alternative. `named` has of each element what it is of, and its value.
    """

    readings: tuple[Reading, ...]
    regions: tuple[tuple[str, ...], ...]
    base: str | None
    units: tuple[str, ...]
    chains: tuple[Chain, ...]
    named: tuple[tuple[str, str], ...]

    @property
    def holds(self) -> bool:
        """False if it contradicts itself: `104 = 103`. That takes calculating, and so may take any time."""
        return all(chain.holds for chain in self.chains)


def read(answer: str, bare_units: bool = False, equations: bool = False) -> MathAnswer:
    """Reads an answer, in a time that its length bounds.

    Letters that stand alone are units only if `bare_units`; equations are values, not chains, only if `equations`.
    """
    whole = typeset(answer)
    text = _peeled(whole)
    parts = [_chain(part, bare_units) for part in elements(text) or [""]]
    names = [_name(*each) for each in zip(elements(whole), parts, strict=False)]
    chains = _in_order([chain for chain, _ in parts])
    if equations:
        readings = [_reading([_text(part) for part in elements(text)])]
    else:
        readings = [_reading([chain.values[end] for chain in chains]) for end in (0, -1)]
    base = _based(readings[-1].latex)
    if base is not None:
        readings = [Reading((base[0],))]
    return MathAnswer(
        readings=tuple(dict.fromkeys(readings)),
        regions=tuple(tuple(map(_peeled, elements(part))) for part in alternatives(rising(text))),
        base=base and base[1],
        units=tuple(unit for _, unit in parts),
        chains=tuple(chains),
        named=tuple(zip(names, (chain.values[-1] for chain, _ in parts), strict=False)),
    )


def _name(part: str, parsed_part: tuple[Chain, str]) -> str:
    """What an element says that its value is of: `x` of `x_1=7`, *mean* of `mean: 7`, *boys* of `7 boys`, or ""."""
    chain, unit = parsed_part
    label = _LABEL.match(part)
    words = label[0] if label else chain.members[0] if chain.relations else unit
    return re.sub(r"\\text\w*|_\s*(?:\w|\{[^{}]*\})|\b(?:the|is|are|equals)\b|[\s{}:~]", "", words).lower()


def _peeled(text: str) -> str:
    r"""Without what only introduces the values: `\text{The answer is}`, `x \in`, `x \text{ such that}`."""
    if builder := _BUILDER.fullmatch(text):
        text = builder[1].strip()
    text = _CHOSEN.sub(r"\1", text)
    if (sentence := _SENTENCE.fullmatch(text)) and _introduces(sentence[1]) and _counts(sentence[3]):
        text = sentence[2] + (sentence[3].strip() and rf" \text{{{sentence[3]}}}")
    label = _LABEL.match(text)
    if label and _introduces(label[1] or label[2] or ""):
        text = text[label.end() :]
    text = re.sub(r"^(?:approximately|about|roughly|around)\s+(?=[\d.\\-])", "", text)
    text = _DOMAIN.sub("", _FOR_ALL.sub(lambda words: words[0] if _CHANGES_THE_VALUE.search(words[0]) else "", text))
    text = _MEMBER.sub("", text, count=1) if _MEMBER.match(text) else text
    return _SETS.get(_words(text), text)


def _introduces(words: str) -> bool:
    """Whether words before a value say that it is the answer, and do not change it."""
    return _IS.search(words) is not None and _CHANGES_THE_VALUE.search(words) is None


def _counts(words: str) -> bool:
    """Whether words behind a value in a sentence are none, a unit or one noun, as the ways of *There are 5 ways*."""
    return re.fullmatch(r"\s*(?:[a-z]{3,}(?<![xnhf]th)s\.?)?", words) is not None or unit_of(words).is_known


def _chain(part: str, bare_units: bool) -> tuple[Chain, str]:
    """The chain of equations that an element is, without units, and the unit of the last member."""
    whole = Chain.of(_COMPOUND.sub(_in_one_unit, part))
    members, units = zip(
        *(without_unit(_BASE_WORDS.sub(r"_{\1}", _peeled(member)), bare_units) for member in whole.members), strict=True
    )
    return Chain(tuple(rising(_text(member)) for member in members), whole.relations), units[-1]


_COMPOUND = re.compile(
    r"(?<![\w.,])(\d+)\s?(?:\\text\s?\{\s?)?([A-Za-z]+)(?: and)?\s?\}?\s?(\d+)\s?(?:\\text\s?\{\s?)?([A-Za-z]+)\s?\}?$"
)


def _in_one_unit(amount: re.Match[str]) -> str:
    r"""`1\text{ hour }30\text{ minutes}` in hours."""
    first, unit, second, smaller = amount.groups()
    factor = conversion(unit, smaller)
    return rf"{first}+{second} \cdot {factor} \text{{{unit}}}" if factor else amount[0]


def _in_order(chains: Sequence[Chain]) -> Sequence[Chain]:
    """Values of different unknowns in the order of their names: `y=-1, x=3` gives x first."""
    names = [chain.members[0] for chain in chains if chain.relations]
    named = len(set(names)) == len(chains) and all(re.fullmatch(_NAME, name) for name in names)
    return sorted(chains, key=lambda chain: chain.members[0]) if named else chains


def _text(value: str) -> str:
    r"""Words in one spelling, `\text{even}`; a single letter or sign in upright type as itself."""
    return rewritten(value, r"(?:text\w*|mathrm|mbox|hbox|operatorname)", _upright).strip()


def _upright(content: str) -> str:
    words = content.strip()
    return rf"\text{{{words}}}" if re.search(r"[A-Za-z]{2}", words) else words


def _reading(parts: Sequence[str]) -> Reading:
    kind: Literal["set", "tuple", "other"] = "other"
    if len(parts) == 1:
        (part,) = parts
        if inner := _within(part, r"\{", r"\}"):
            parts = elements(inner)
            kind = "set" if len(parts) > 1 else "other"
        elif inner := _within(part, "(", ")") or _within(part, "[", "]"):
            is_tuple = len(elements(inner)) > (2 if part[0] == "[" else 1)
            parts, kind = ([f"({inner})"], "tuple") if is_tuple else (parts, kind)
    return Reading(tuple(itertools.chain.from_iterable(_of_both_signs(part) for part in parts)), kind)


def _within(text: str, opening: str, closing: str) -> str | None:
    """The inside of brackets that enclose the whole text; None if there are none."""
    if not (text.startswith(opening) and text.endswith(closing)):
        return None
    inner = text[len(opening) : -len(closing)]
    depth = itertools.accumulate((character in "([{") - (character in ")]}") for character in inner)
    return inner.strip() if min(depth, default=0) >= 0 else None


def _of_both_signs(value: str) -> list[str]:
    r"""The values that one with `\pm` stands for: all combinations, or, with a `\mp`, upper and lower signs."""
    signs = _SIGN.findall(value)
    if not 0 < len(signs) <= _MOST_SIGNS or {r"\pp", r"\mm"} & set(signs):
        return [value]
    upper = ["+" if sign == r"\pm" else "-" for sign in signs]
    lower = ["-" if sign == r"\pm" else "+" for sign in signs]
    choices = [upper, lower] if r"\mp" in signs else itertools.product("+-", repeat=len(signs))
    return ["".join(map("".join, zip(_SIGN.split(value), [*choice, ""], strict=True))) for choice in choices]


def _based(value: str) -> tuple[str, str] | None:
    """Digits and base of a number that names its base."""
    match = _BASE.fullmatch(value)
    if match is None:
        return None
    base = match[2].lower()
    if base in _BASES:
        base = str(_BASES.index(base))
    return (match[1].upper(), base) if base.isdigit() else None


LONGEST_ANSWER = 1000
"""Characters. Gold answers of the usual benchmarks have at most 210; parsing far longer ones only costs time."""

DEEPEST_ANSWER = 10
"""Brackets within brackets. Those gold answers nest at most 4; the time that parsing takes is exponential in it."""

_HIDES = re.compile(r"\\[hv]?phantom(?![A-Za-z])\s*(\{[^{}]*\}|\S)?")
_LETTER = re.compile(r"\(?([A-Z])[).]?")
_CHOICE = re.compile(r"\(([A-Z])\)[\s:.]*(?=\S)|([A-Z])[).:]\s*(?=\S)")
_SPACE = r"(?:[\s~]|\\[\s,;:!\\]|\\q?quad(?![A-Za-z]))*"
_GOLD_CHOICE = re.compile(
    rf"(?:\\(?:text\w*|mathrm|mathbf|mbox)\s*\{{\s*(?=[^{{}}]*\}}))?(?:\(([A-Z])\)|(?<=\{{)([A-Z])\.(?=\s*\}})){_SPACE}\}}?{_SPACE}"
    r"([^\s}\\~].*|\\[A-Za-z{(].*)",
    re.DOTALL,
)
_MORE_CHOICES = re.compile(r"\band\b|[,;]|\).*\([A-Z]\)")
_TO = re.compile(r"(\d)\s*(?:\\text\s*\{\s*to\s*\}|\bto\b)\s*(?=\d)")
_RATIO = re.compile(r"[^:<>=]+(?::[^:<>=]+){2,}")
_NOTHING = {
    **dict.fromkeys(("dne", "the limit does not exist", "limit does not exist"), "does not exist"),
    **{"no solutions": "no solution", "no real solutions": "no real solution"},
}
_NUMBERS = {**{name: str(number) for number, name in enumerate(_BASES)}, "infinity": r"\infty"}
"""What a word says as a number."""
_SETS = {
    f"{words}{name}": rf"\mathbb{{{letter}}}"
    for letter, name in (("R", "real numbers"), ("R", "reals"), ("Z", "integers"))
    for words in ("all ", "set of ", "set of all ")
}
"""What words say as a set."""
_EMPTY, _NO_VALUES = r"\emptyset", "no solution"
_SAID = re.compile(
    r"^(?:(?:it|this|that|there|he|she|they|the(?: [a-z]+){1,3}) (?:is|are|was|were|will be) )?"
    r"(?:(?:an?|the|on) )?(?=[a-z]{2})"
    r"|(?<=^yes) (?:it|they|he|she|there) (?:is|are|does|do|can)$|(?<=^no) (?:it|they|he|she|there) \w+ not$"
)
"""What a sentence has around the word that answers."""
_FURTHER_CHOICE = re.compile(r"\(([A-Z])\)|^([A-Z])[).:]|(?:[,;/&]|\b(?:or|and)\b)\W*([A-Z])(?=[).:,;]|\W*$)")
"""Another label behind the first: `or (C)`, `C. D.`, `, C: 8`."""
_PERCENTAGE = re.compile(r"-?[1-9]\d*(?:\.\d+)?")
_PERCENT = re.compile(r"\s*\\?%$")


@dataclass(frozen=True)
class Gold:
    """A gold answer, understood once."""

    answer: MathAnswer
    meanings: tuple[Any, ...]
    is_equation: bool
    has_letters: bool


def equivalent(gold: str, answer: str) -> bool:
    """Whether the two are equal; bounded neither in time nor in memory, so call it in a `GraderPool`.

    Numbers are compared exactly: 0.1 is not 0.1000001. Only where the gold one has no end as a decimal, such as 1/3,
    and within lists, is a decimal taken whose first 6 places beyond the leading zeros agree. 52 is `52_8`, as problems
    name the base themselves, but neither `52_9` nor, where the gold answer has no base, is `52_8` 52. A phantom that
    the gold answer does not have earns nothing.
    """
    if gold.strip() == answer.strip():
        return True
    if _is_too_long(answer) or not _phantoms(answer) <= _phantoms(gold):
        return False
    if _GOES_ON.search(answer) and not _DOTS.search(gold):
        return False
    if _are_same_choices(gold, answer):
        return True
    choice = _GOLD_CHOICE.fullmatch(gold.strip())
    if choice and not (_MORE_CHOICES.search(gold) and _choices(gold, is_worded=True)):
        return _is_choice_or_its_value(choice, answer)
    if (is_same := same_moment(*map(_peeled, map(typeset, (gold, answer))))) is not None:
        return is_same
    wanted = understood(gold)
    answer = _in_variables_of(gold, answer)
    given = read(answer, bare_units=not wanted.has_letters, equations=wanted.is_equation)
    moved = _in_places(wanted.answer, given)
    return _is_given(wanted, given) or (moved is not given and _is_given(wanted, moved))


def _is_given(wanted: Gold, given: MathAnswer) -> bool:
    """Whether an answer, its values in this order, is the gold one."""
    factors = _conversions(wanted.answer, given)
    if not given.holds or None in factors or not _may_be_equal(wanted.answer, given):
        return False
    if _is_swapped(wanted.answer.named, given.named):
        return False
    if (is_same := _same_order(wanted.answer, given)) is not None:
        return is_same
    readings = [_converted(reading, factors) for reading in given.readings]
    return any(_equal(wanted, reading) for reading in readings) or _equal_regions(wanted, given)


_DOTS = re.compile(r"\\[lc]?dots(?![A-Za-z])|\.\.\.|…")
_GOES_ON = re.compile(rf",\s*(?:{_DOTS.pattern})[\s$.)\]]*$")
"""A list that says nothing of its end."""
_INTEGER = re.compile(r"(?<![\w\\])([A-Za-z])\s?\\in\s?\\mathbb\s?\{?\s?Z")
_HEAD = re.compile(r"(?<![\w\\])[A-Za-z]\s?\(\s?([a-z](?:\s?,\s?[a-z])*)\s?\)\s?=")
_UPRIGHT = re.compile(r"\\(?:text\w*|mathrm|mbox)\s*\{[^{}]*\}")
_PROSE = (
    "all|and|any|arbitrary|are|complex|constants?|each|either|every|everywhere|fixed|for|function|given|integers?"
    "|natural|negative|nonnegative|nonzero|numbers?|positive|rational|reals?|some|such|that|the|then|values?|when|where"
    "|which|with|zero"
)
"""Words of several letters behind a function that are no product of variables, as `ax` is."""
_NAME_OR_COMMAND = re.compile(rf"\\[A-Za-z]+|(?<![A-Za-z])(?i:{_PROSE})(?![A-Za-z])|[A-Za-z]")
_WORDED = re.compile(r"\\text|\band\b")


def _choices(text: str, *, is_worded: bool) -> str:
    r"""The letters of several choices in their order: of `A, C`, `(A) and (C)`, `\text{AC}`; "" of anything else.

    Where no words say that they are choices, `(A, C)` is a point, and `A; C` is not `AC`.
    """
    text = re.sub(r"\\(?:text\w*|mathrm|mathbf|mbox|[,;: ])|[\s{}~$.]", "", re.sub(r"\band\b", ",", text))
    text = re.sub(r"\(([A-H])\)", r"\1", text)
    if is_worded:
        text = re.sub(r"^\(([^()]*)\)$", r"\1", text.replace(";", ","))
    letters = text.replace(",", "")
    is_list = re.fullmatch(r"[A-H]{2,}|[A-H](?:,+[A-H])+,?", text)
    return letters if is_list and [*letters] == sorted({*letters}) else ""


def _are_same_choices(gold: str, answer: str) -> bool:
    """Whether both list the same choices."""
    is_worded = _WORDED.search(gold) is not None
    choices = _choices(gold, is_worded=is_worded)
    return bool(choices) and choices == _choices(answer, is_worded=is_worded or _WORDED.search(answer) is not None)


def _in_variables_of(gold: str, answer: str) -> str:
    """The answer with the gold one's names of arguments and integers: `f(n)=n` is `f(x)=x`, `f(n)=x` is `f(x)=n`."""
    pattern = _HEAD if _HEAD.search(gold) or _HEAD.search(answer) else _INTEGER
    heads = [{re.sub(r"\s", "", head) for head in pattern.findall(text)} for text in (gold, answer)]
    if [len(names) for names in heads] != [1, 1] or heads[0] == heads[1]:
        return answer
    wanted, given = (names.pop().split(",") for names in heads)
    if len(wanted) != len(given) or len({*wanted, *given}) != 2 * len(wanted):
        return answer
    if {*given} & {*_NAME_OR_COMMAND.findall(_UPRIGHT.sub("", _HEAD.sub("", gold)))}:  # f(a)=ax is not f(x)=ax
        return answer
    other = dict(zip([*given, *wanted], [*wanted, *given], strict=True))
    return _NAME_OR_COMMAND.sub(lambda name: other.get(name[0], name[0]), answer)


def _in_places(gold: MathAnswer, given: MathAnswer) -> MathAnswer:
    """The answer with its values in the gold one's order, where each has a unit of its own: `30 mm and 2 cm`."""
    wanted, names = ([name for name, _ in answer.named] for answer in (gold, given))
    are_chains = any(chain.relations for chain in given.chains)  # whose values are in the order of their names
    if are_chains or "" in wanted or len({*wanted}) < len(names) or sorted(wanted) != sorted(names):
        return given
    places = [names.index(name) for name in wanted]
    readings = (
        replace(it, values=tuple(it.values[place] for place in places)) if len(it.values) == len(places) else it
        for it in given.readings
    )
    units, named = tuple(given.units[place] for place in places), tuple(given.named[place] for place in places)
    return replace(given, readings=tuple(readings), units=units, named=named)


def _conversions(gold: MathAnswer, given: MathAnswer) -> list[str | None]:
    """What each value of an answer is multiplied by to be one in the gold answer's unit."""
    return [
        conversion(_angle(wanted, unit, gold), _angle(unit, wanted, given))
        for wanted, unit in zip(gold.units, given.units, strict=False)
    ]


def _angle(unit: str, other: str, answer: MathAnswer) -> str:
    r"""Radians, or minutes, where the other answer is in degrees and this one, in no unit, has a `\pi`, or a `'`."""
    if unit or unit_of(other) != DEGREE:
        return unit
    latex = answer.readings[0].latex
    return "rad" if r"\pi" in latex else "arcmin" * latex.endswith("'")


def _converted(reading: Reading, factors: Sequence[str | None]) -> Reading:
    """The values in the units of the gold answer."""
    if not any(factors) or len(reading.values) != len(factors):
        return reading
    values = (
        rf"({value}) \cdot {factor}" if factor else value for value, factor in zip(reading.values, factors, strict=True)
    )
    return Reading(tuple(values), reading.kind)


_LESS = re.compile(r"<|\\le(?![A-Za-z])")


def _same_order(gold: MathAnswer, given: MathAnswer) -> bool | None:
    r"""Whether both put the same numbers in order, as `\frac14 < \frac13` does; None if the gold answer orders none."""
    (members, signs), (others, theirs) = (cut(answer.readings[0].latex, _LESS) for answer in (gold, given))
    if not signs or not all(map(_is_number, members)):
        return None
    return signs == theirs and all(
        same(parsed(left), parsed(right)) for left, right in zip(members, others, strict=True)
    )


def _is_swapped(gold: Sequence[tuple[str, str]], given: Sequence[tuple[str, str]]) -> bool:
    """Whether a value stands at the name, or without names at the place, of another: `3 boys and 4 girls`."""
    wanted, theirs = dict(gold), dict(given)
    if not len(wanted) == len(gold) == len(given) > 1 or "" in wanted:
        return False
    if theirs.keys() == wanted.keys():
        orders = [[(value, theirs[name]) for name, value in gold]]
    elif not any(theirs):  # in the order of the gold one, or in that of the names
        values = [other for _, other in given]
        orders = [[*zip(dict(them).values(), values, strict=True)] for them in (gold, sorted(gold))]
    else:
        return False
    return not any(
        all(_is_one(*pair) or not any(_is_one(value, pair[1]) for value in wanted.values()) for pair in pairs)
        for pairs in orders
    )


def _is_one(value: str, other: str) -> bool:
    return value == other or same(parsed(value), parsed(other))


def _phantoms(answer: str) -> set[str | None]:
    """What the answer sets but does not show."""
    return {phantom[1] for phantom in _HIDES.finditer(answer)}


def _is_choice_or_its_value(choice: re.Match[str], answer: str) -> bool:
    """Whether an answer is the letter of a gold `(A) 3`, its value, or the two together."""
    given = _GOLD_CHOICE.fullmatch(answer.strip())
    letter, value = _letter_and_value(choice)
    if given:
        other, its_value = _letter_and_value(given)
        return letter == other and equivalent(value, its_value)
    return equivalent(letter, answer) or equivalent(value, answer)


def _letter_and_value(choice: re.Match[str]) -> tuple[str, str]:
    return choice[1] or choice[2], choice[3]


def right(gold: str, boxes: Boxes) -> bool:
    """Whether the final boxes of a response give the gold answer: as one set, or each of them.

    Boxes that are alternatives count as a set only if the gold answer says *or* as well.
    """
    if all(equivalent(gold, content) for content in boxes.contents):
        return True
    is_set = not boxes.alternatives or len(alternatives(typeset(gold))) > 1
    return len(boxes.contents) > 1 and is_set and equivalent(gold, str(boxes))


def nesting(answer: str) -> int:
    """How deep brackets of any kind stand within each other, closed or not."""
    depth = itertools.accumulate((character in "([{") - (character in ")]}") for character in answer)
    return max(depth, default=0)


def normalised(answer: str) -> str:
    """The answer in plain notation, for majority votes; calculates nothing, so that it may be called anywhere."""
    return answer.strip() if _is_too_long(answer) else read(answer).readings[-1].latex


def _is_too_long(answer: str) -> bool:
    return len(answer) > LONGEST_ANSWER or nesting(answer) > DEEPEST_ANSWER


@lru_cache(maxsize=4096)
def understood(gold: str) -> Gold:
    """What the gold answer says."""
    is_equation = "=" in Chain.of(typeset(gold)).relations
    answer = read(gold, equations=is_equation)
    values = " ".join(reading.latex for reading in answer.readings)
    meanings = tuple(meaning for reading in answer.readings for meaning in parsed(reading.latex))
    return Gold(answer, meanings, is_equation, re.search("[A-Za-z]", _COMMAND.sub("", values)) is not None)


def _may_be_equal(gold: MathAnswer, given: MathAnswer) -> bool:
    """False if base, brackets or units say that the two are different things."""
    in_base = given.base in (None, gold.base or "10")
    of_a_kind = {gold.readings[-1].kind, given.readings[-1].kind} != {"set", "tuple"}
    return in_base and of_a_kind and not _is_percentage_of_unit(gold, given) and not _is_percentage_of_unit(given, gold)


def _is_percentage_of_unit(answer: MathAnswer, other: MathAnswer) -> bool:
    r"""Whether one answer is a percentage where the other is in a unit: `62\%` and `62^\circ`."""
    percent, bare = (_PERCENT.search(one.readings[-1].latex) is not None for one in (answer, other))
    return percent and not bare and any(unit_of(unit).is_known for unit in other.units)


def _equal(gold: Gold, reading: Reading) -> bool:
    wanted, given = gold.answer.readings[0].latex, reading.latex
    if reading.kind != "tuple" and not _repeats_as(gold.answer.readings[0], reading):
        return False
    if letter := _LETTER.fullmatch(wanted):
        choice = _LETTER.fullmatch(given) or _CHOICE.match(given)
        return (choice is not None and _chosen(given, choice) == {letter[1]}) or same(gold.meanings, parsed(given))
    if gold.answer.base is not None and gold.answer.base != "10":
        return wanted.upper() == given.upper()
    if ":" in wanted:
        given = _TO.sub(r"\1:", given)
    if _RATIO.fullmatch(wanted) or _RATIO.fullmatch(given):
        return _equal_ratios(wanted.split(":"), given.split(":"))
    words = [_NO_VALUES if latex == _EMPTY else _words(latex) for latex in (wanted, given)]
    if words[0] and words[0] == words[1]:
        return True
    given_value, gold_value = _NUMBERS.get(_words(given), given), _NUMBERS.get(words[0])
    values = gold.answer.readings[0].values
    if not _spells_another(values, reading.values) and same(gold.meanings, parsed(given_value)):
        return True
    if gold_value and same(parsed(gold_value), parsed(given_value)):
        return True
    behind = given[prefix.end() :] if (prefix := _CHOICE.match(given)) else ""
    if behind and not _spells_another(values, (behind,)) and same(gold.meanings, parsed(behind)):
        return True
    bare = [_PERCENT.sub("", latex) for latex in (wanted, given)]
    only_one_says_percent = (bare[0] == wanted) != (bare[1] == given)
    return only_one_says_percent and all(map(_PERCENTAGE.fullmatch, bare)) and same(parsed(bare[0]), parsed(bare[1]))


def _repeats_as(gold: Reading, given: Reading) -> bool:
    """Whether the values are those of the gold list as often as there, if that has one of them twice: 1, 1, 2."""
    if gold.kind != "other" or len({*gold.values}) == len(gold.values):
        return True
    if len(given.values) != len(gold.values):
        return False
    left = [*given.values]
    for wanted in gold.values:
        match = next((value for value in left if _is_one(wanted, value)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _equal_ratios(wanted: list[str], given: list[str]) -> bool:
    """Whether the members of two ratios are proportional."""
    if len(wanted) != len(given):
        return False
    crossed = [((wanted[0], there), (here, given[0])) for here, there in zip(wanted[1:], given[1:], strict=True)]
    return all(same(*(parsed(rf"({a}) \cdot ({b})") for a, b in pair)) for pair in crossed)


def _chosen(given: str, choice: re.Match[str]) -> set[str]:
    """The labels that an answer gives, the one that it begins with among them."""
    further = _FURTHER_CHOICE.finditer(given[choice.end() :])
    return {label for match in (choice, *further) for label in match.groups() if label}


def _words(latex: str) -> str:
    """What a text says, in small letters; "" if it is none."""
    words = re.sub(r"\\text\s*|[{}().'\"]", "", re.sub(r",|\band\b", " ", latex)).strip()
    words = " ".join(words.lower().split()) if re.fullmatch(r"[A-Za-z\s-]{2,}", words) else ""
    words = _SAID.sub("", words)
    return _NOTHING.get(words, words)


_CODE = re.compile(r"\d+(?:\.\d+){2,}|(?:[A-Z]\d+){2,}|-?[\d.]+ to -?[\d.]+")
_TEXT = re.compile(r"\\text\b|^(?:yes|no)$|^[A-Z](?:\s+[A-Z]){2,}$")
_WORD = re.compile(r"\b(?=[A-Za-z]*[aeiou])[A-Za-z][a-z]{3,}\b", re.ASCII)


def _spells_another(gold: Sequence[str], given: Sequence[str]) -> bool:
    """Whether the values are texts and others than the gold one's: to the engine `stop` is s t o p, and so `post`."""
    wanted, others = (sorted(map(_spelled, values)) for values in (gold, given))
    are_texts = all(wanted) and all(others) and any(map(_is_a_text, gold))
    return are_texts and wanted != others


def _is_a_text(value: str) -> bool:
    """Whether it is no product of letters, as `abxy`, `BIL` and `nRTV` are, and `stop`, `HTTH` and `A B C` are not.

    The letters of a product stand in the order of the alphabet, have no vowel, or are capitals without a repetition.
    """
    if _CODE.fullmatch(value) or _TEXT.search(value):
        return True
    letters = re.sub(r"\W", "", value)
    is_repeated = letters.isalpha() and letters.isupper() and 2 < len(letters) > len({*letters})
    return is_repeated or any([*word.lower()] != sorted(word.lower()) for word in _WORD.findall(value))


def _spelled(value: str) -> str:
    """Its letters in their order, of a word, or a code such as 192.168.0.1; "" of anything else."""
    value = _TO.sub(r"\1 to ", value)
    return re.sub(r"\s", "", value if _CODE.fullmatch(value) else _words(value))


def _equal_regions(gold: Gold, given: MathAnswer) -> bool:
    """Whether inequalities and intervals joined by *and* and *or* say the same."""
    both = (gold.answer, given)
    if not any(ORDER.search(condition) for answer in both for conditions in answer.regions for condition in conditions):
        return False
    first, second = (region(answer.regions) for answer in both)
    return first is not None and second is not None and same([first], [second])
