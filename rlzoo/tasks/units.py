r"""Units and other words behind a value: `4.2~\text{cm}`, `300\,K`, `103 \text{ ways}`, `5 \text{ million dollars}`.

What changes a value is no unit: a magnitude becomes a factor (`\text{ million}` is `\cdot 10^{6}`, `\text{ percent}` is
`\%`), and phrases with words such as *not*, *or*, *squared* stay, so that nobody takes the answer for the bare value.
"""

import re

from rlzoo.tasks.notation import LETTERS

_SYMBOL = (
    r"(?:(?:[fpnumckMGT]|da)?(?:m|g|s|A|K|mol|N|J|W|V|C|F|H|T|Hz|Pa|eV|L|l|bar|cal|pc|ohms?)|cd|rad|sr|degs?|mins?|h|hrs?|"
    r"secs?|d|yrs?|atm|amu|AU|ly|ergs?|dyn|dynes?|ft|in|yd|mi|lbs?|oz|mph|kmh|kph|rpm|sq|cu|cc)"
)
_BARE = rf"(?<![A-Za-z\\]){_SYMBOL}(?![A-Za-z])"
_COMMAND = (
    r"(?:\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})(?:\s*[CFK](?![A-Za-z]))?|\\AA(?![A-Za-z])|\\mathring\s*\{\s*A\s*\}|"
    rf"(?:(?<![A-Za-z\\])[kMGm]|\\mu\s*)?\\Omega(?![A-Za-z])|\\mu\s+{_BARE}|\\mu(?=\s*\\(?:text|math)))"
)
_UPRIGHT = r"\\(?:text(?:rm|normal|up|it|sf)?|mathrm|mbox|hbox|operatorname|unit|si)\s*\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"
_POWER = r"(?:\s*\^\s*(?:\{\s*-?\s*\d\s*\}|-?\d(?!\d)))?"
_FACTOR = rf"(?:{_UPRIGHT}|{_COMMAND}|{_BARE}){_POWER}"
_TAIL = re.compile(rf"\s*(?:/\s*)?\(?\s*{_FACTOR}(?:\s*(?:\\cdot(?![A-Za-z])|[/*.])?\s*\(?{_FACTOR}\)?)*\s*\)?\.?\s*$")

_CONTENT = re.compile(r"\\[a-z]+\s*\{(.*)\}", re.DOTALL)
_BARE_WORDS = re.compile(r"(?:(?<=[\d)}])|(?<=\\pi))\s+((?:[A-Za-z]+\s+)*[A-Za-z]{4,}(?:\s+[A-Za-z]+)*)\.?$")
_UPRIGHT_PREFIX = re.compile(r"\\(?:text|mathrm)\s*\{\s*([kMGm])\s*\}(?=\s*\\Omega)")
_COMMAND_AT_THE_END = re.compile(rf"\\(?!(?:{'|'.join(LETTERS)})\s*$)[a-zA-Z]*\s*$")
_OPERATOR = re.compile(r"(?:[-+*/^_=<>(,:~]|\\(?:cdot|times|pm|mp|approx|le|ge|ne|in|frac|sqrt))\s*$")

MAGNITUDES = {
    **{"dozen": r"\cdot 12", "hundred": r"\cdot 10^{2}", "thousand": r"\cdot 10^{3}", "million": r"\cdot 10^{6}"},
    **{"billion": r"\cdot 10^{9}", "trillion": r"\cdot 10^{12}", "percent": r"\%", "percentage": r"\%", "pct": r"\%"},
}
_MAGNITUDE = re.compile(rf"\\[a-z]+\s*\{{\s*({'|'.join(MAGNITUDES)})\b\s*(?:of\s+)?([^{{}}]*)\}}\s*$")
_CHANGES_THE_VALUE = re.compile(
    r"\b(?:not?|nor|none|neither|either|or|and|than|less|more|fewer|least|most|above|below|under|if|when|where|but|except|"
    r"excluding|maybe|perhaps|about|approximately|wrong|incorrect|false|is|are|was|isn|aren|times|plus|minus|squared|"
    r"cubed|factorial|half|halves|thirds?|quarters?|fourths?|fifths?|tenths?|hundredths?|thousandths?|double|twice|mod|"
    r"modulo|base|through|between|remainder|sin|cos|tan|cot|sec|csc|arc\w+|log|ln|exp|sqrt|inf|infty|infinity|"
    rf"choose|{'|'.join(MAGNITUDES)})s?\b",
    re.IGNORECASE,
)
_PUNCTUATION = re.compile(r"\\(?:cdot|times|mu|Omega|AA|circ|text|mathrm|[,;: ])|[\s/.*'^{}°()-]")
_POWER_OF_A_UNIT = re.compile(r"(?<=[A-Za-z])\s*\^?\s*\{?\s*-?\d\s*\}?(?!\d)")

_NAMES = (
    *("m meter meters metre metres", "cm centimeter centimeters", "mm millimeter millimeters", "ft foot feet"),
    *("km kilometer kilometers", "in inch inches", "yd yard yards", "mi mile miles", "s sec secs second seconds"),
    *("min mins minute minutes", "h hr hrs hour hours", "day days", "week weeks", "month months", "year years"),
    *("kg kilogram kilograms", "g gram grams", "lb lbs pound pounds", "oz ounce ounces", "rad radian radians"),
    *("degree degrees", "cent cents", "dollar dollars"),
)
_SAME_UNIT = {name: names for names in _NAMES for name in names.split()}


def without_unit(text: str, bare: bool) -> tuple[str, str]:
    r"""The value and the unit behind it, "" if there is none. A text that is nothing but words is a value.

    Letters in italics that stand alone, such as the K of `300\,K`, are a unit only if `bare`.
    """
    text = _UPRIGHT_PREFIX.sub(r"\1", _BARE_WORDS.sub(r" \\text{\1}", text))
    tail = _TAIL.search(text)
    if tail is None:
        return text, ""
    value, unit = text[: tail.start()], tail[0]
    if not value.strip() or _OPERATOR.search(value) or _COMMAND_AT_THE_END.search(value):
        return text, ""
    magnitude = _MAGNITUDE.fullmatch(unit.strip())
    if magnitude and (not magnitude[2].strip() or _is_unit(magnitude[2])):
        return f"{value} {MAGNITUDES[magnitude[1]]}", magnitude[2].strip()
    upright = re.findall(_UPRIGHT, unit)
    if upright:
        is_unit = all(_is_unit(_CONTENT.sub(r"\1", words)) for words in upright)
    else:
        is_unit = re.search(_COMMAND, unit) is not None or (bare and (unit[0].isspace() or _is_longer(unit)))
    return (value.strip(), unit.strip()) if is_unit else (text, "")


def contradict(first: str, second: str) -> bool:
    """Whether both are names of units that everybody knows, and of different ones."""
    names = [_SAME_UNIT.get(_name(unit)) for unit in (first, second)]
    return None not in names and names[0] != names[1]


def _is_unit(words: str) -> bool:
    """Whether words in upright letters may follow a value without changing it."""
    if _CHANGES_THE_VALUE.search(words):
        return False
    if re.search(r"\\(?:AA|Omega|circ)(?![A-Za-z])", words):
        return True
    letters = _PUNCTUATION.sub(" ", _POWER_OF_A_UNIT.sub(" ", words)).split()
    return bool(letters) and all(re.fullmatch(rf"{_SYMBOL}|a|[A-Za-z]{{2,}}", word) for word in letters)


def _is_longer(unit: str) -> bool:
    """Whether it begins with more than one letter: 4cm has a unit, 4m may be a product."""
    return re.match(r"[A-Za-z]{2}", unit) is not None


def _name(unit: str) -> str:
    return "degree" if "circ" in unit else _CONTENT.sub(r"\1", unit.strip()).strip(" .")
