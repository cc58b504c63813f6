"""What an answer says: its values, without labels, units and base, and whether they are a set or a tuple."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rlzoo.tasks.chains import Chain
from rlzoo.tasks.notation import alternatives, elements, rewritten, typeset
from rlzoo.tasks.units import without_unit

ORDER = re.compile(r"[<>]|\\(?:le|ge|ne|infty)(?![A-Za-z])")
"""What intervals and inequalities have."""

_WORDS = r"\\(?:text\w*|mathrm|mbox)\s*\{([^{}\d]*)\}"
_LABEL = re.compile(rf"(?:{_WORDS}|([A-Za-z]{{3}}[A-Za-z ]*(?:\b(?:is|are|equals)\b|:)))\s*:?\s*(?=\S)")
_CHOSEN = re.compile(
    r"^(?:\\text\w*\s*\{\s*)?(?:option|choice|answer)\s*:?\s*\}?\s*:?\s*\(?([A-Z])\)?(?:\.?\s*\}?$|\s*(?=:\s*[^:]*$))",
    re.IGNORECASE,
)
_IS = re.compile(r"(?:\b(?:is|are|equals|approximately|about|roughly|around)|[:=])\s*$", re.IGNORECASE)
_CHANGES_THE_VALUE = re.compile(r"\b(?:not?|never|least|most|less|more|than|between|or|except)\b|n't", re.IGNORECASE)
_NAME = r"[A-Za-z](?:_\w|_\s*\{[^{}]*\})?"
_MEMBER = re.compile(rf"{_NAME}\s*\\in(?![A-Za-z])\s*(?=\S)")
_DOMAIN = re.compile(rf"[,;(\s]\s*(?:\\text\s*\{{[^{{}}]*\}}\s*)?\(?{_NAME}\s*\\in\s*\\mathbb\W*[A-Z]\W*$")
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
    inequalities, joined by *and*, of each alternative.
    """

    readings: tuple[Reading, ...]
    regions: tuple[tuple[str, ...], ...]
    base: str | None
    units: tuple[str, ...]
    chains: tuple[Chain, ...]

    @property
    def holds(self) -> bool:
        """False if it contradicts itself: `104 = 103`. That takes calculating, and so may take any time."""
        return all(chain.holds for chain in self.chains)


def read(answer: str, bare_units: bool = False, equations: bool = False) -> MathAnswer:
    """Reads an answer, in a time that its length bounds.

    Letters that stand alone are units only if `bare_units`; equations are values, not chains, only if `equations`.
    """
    text = _peeled(typeset(answer))
    parts = [_chain(part, bare_units) for part in elements(text) or [""]]
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
        regions=tuple(tuple(map(_peeled, elements(part))) for part in alternatives(text)),
        base=base and base[1],
        units=tuple(unit for _, unit in parts),
        chains=tuple(chains),
    )


def _peeled(text: str) -> str:
    r"""Without what only introduces the values: `\text{The answer is}`, `x \in`, `x \text{ such that}`."""
    if builder := _BUILDER.fullmatch(text):
        text = builder[1].strip()
    text = _CHOSEN.sub(r"\1", text)
    label = _LABEL.match(text)
    words = label and (label[1] or label[2])
    if label and words and _IS.search(words) and not _CHANGES_THE_VALUE.search(words):
        text = text[label.end() :]
    text = re.sub(r"^(?:approximately|about|roughly|around)\s+(?=[\d.\\-])", "", text)
    text = _DOMAIN.sub("", text)
    return _MEMBER.sub("", text, count=1) if _MEMBER.match(text) else text


def _chain(part: str, bare_units: bool) -> tuple[Chain, str]:
    """The chain of equations that an element is, without units, and the unit of the last member."""
    whole = Chain.of(part)
    members, units = zip(
        *(without_unit(_BASE_WORDS.sub(r"_{\1}", _peeled(member)), bare_units) for member in whole.members), strict=True
    )
    return Chain(tuple(map(_text, members)), whole.relations), units[-1]


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
        elif (inner := _within(part, "(", ")") or _within(part, "[", "]")) and len(elements(inner)) > (
            part[0] == "["
        ) + 1:
            parts, kind = [f"({inner})"], "tuple"
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
    return [_with_signs(value, iter(choice)) for choice in choices]


def _with_signs(value: str, signs: Iterator[str]) -> str:
    return _SIGN.sub(lambda _: next(signs), value)


def _based(value: str) -> tuple[str, str] | None:
    """Digits and base of a number that names its base."""
    match = _BASE.fullmatch(value)
    if match is None:
        return None
    base = match[2].lower()
    if base in _BASES:
        base = str(_BASES.index(base))
    return (match[1].upper(), base) if base.isdigit() else None
