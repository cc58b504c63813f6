r"""What units say: `km/h`, `square inches`, `\mathrm{m\,s^{-1}}`, `千米/小时`, and how many of one are another.

A unit is a factor and powers of base units; a word that is no known unit, such as *beats* or *apples*, is kept beside
them. Two units are compared only where such words are the same, so that 5 apples may be 5 fruits.
"""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

_TABLE = """
m | meter metre metro 米
g | gram gramm gramme gramo 克
s | sec second segundo seconde sekunde sekunden 秒
A | amp ampere
K | kelvin
mol | mole
USD | dollar buck 美元 美金
EUR | euro 欧元
JPY | yen 日元
GBP | 英镑
HKD | 港元 港币
yuan | 元 人民币
jiao = 0.1 yuan | 角
fen = 0.01 yuan
degree | deg grad grado degre 度
arcmin = degree/60
celsius
fahrenheit
bit
rad | radian radianes 弧度
N = kg m/s^2 | newton
J = N m | joule
W = J/s | watt
Pa = N/m^2 | pascal
V = W/A | volt
C = A s | coulomb
F = C/V | farad
ohm = V/A
T = V s/m^2 | tesla
H = V s/A | henry
Hz = 1/s | hertz
eV = 0.0000000000000000001602176634 J
cal = 4.184 J | calorie
erg = 0.0000001 J
dyn = 0.00001 N | dyne
bar = 100000 Pa
atm = 101325 Pa
L = 0.001 m^3 | l liter litre litro 升
min = 60 s | minute minuto minuten 分钟 分
h = 3600 s | hr hour stunde stunden hora heure 小时 时
day = 86400 s | d tag tage dia jour 天 日
week = 7 day | wk woche semana semaine 周
month | monat mes mois
year | yr jahr ano
in = 0.0254 m | inch
ft = 12 in | foot feet
yd = 3 ft | yard
mi = 5280 ft | mile milla
hectare = 10000 m^2
acre = 4840 yd^2
oz = 28.349523125 g | ounce
lb = 16 oz | pound
ton = 1000 kg | tonne 吨
gallon = 231 in^3 | gal
quart = 0.25 gallon
pint = 0.5 quart
cent = 0.01 USD | penny pennies
nickel = 5 cent
dime = 10 cent
byte = 8 bit
jin = 500 g | 斤
km = 1000 m | 公里
kg = 1000 g | 公斤
cc = 0.000001 m^3
mph = mi/h
kmh = km/h | kph
mpg = mi/gallon
"""
"""A unit, what it is worth, and its names in words."""
_SCALED = frozenset(
    ("m", "g", "s", "A", "K", "mol", "N", "J", "W", "Pa", "V", "C", "F", "T", "Hz", "eV", "cal", "bar", "L", "l", "ohm")
)
"""What a letter such as k may stand before."""
_LETTERS = {
    **{"G": Fraction(10**9), "M": Fraction(10**6), "k": Fraction(1000), "d": Fraction(1, 10), "c": Fraction(1, 100)},
    **{"m": Fraction(1, 1000), "μ": Fraction(1, 10**6), "u": Fraction(1, 10**6), "n": Fraction(1, 10**9)},
}
_PREFIXES = {
    **{
        "kilo": "k",
        "千": "k",
        "mega": "M",
        "giga": "G",
        "deci": "d",
        "dezi": "d",
        "分": "d",
        "centi": "c",
        "zenti": "c",
    },
    **{"厘": "c", "milli": "m", "mili": "m", "毫": "m", "micro": "u", "mikro": "u", "nano": "n"},
}
_POWERS = {
    **dict.fromkeys(("square", "sq", "quadrat", "平方"), 2),
    **dict.fromkeys(("cubic", "cu", "kubik", "立方"), 3),
}
_POWERS_BEHIND = {"squared": 2, "cuadrado": 2, "cubed": 3, "cubico": 3}
_PER = ("/", "per", "pro", "por", "par")
_LONGEST_NAME = 24
_ENDINGS = ("", "s", "es", "n", "en")
_TOKEN = re.compile(r"\^\s*(-?\d)(?!\d)|([^\W\d_]+|\d+(?:\.\d+)?|[/()])")
_TEMPERATURE = re.compile(
    r"degrees?\W{0,9}(?:text|mathrm)?\W{0,9}(?:(C|F)(?![A-Za-z])|(celsius|fahrenheit))", re.IGNORECASE
)


@dataclass(frozen=True)
class Unit:
    """A factor times powers of base units. `words` are what stood there and is no unit, `unit^2` for square units."""

    factor: Fraction = Fraction(1)
    powers: frozenset[tuple[str, int]] = frozenset()
    words: frozenset[str] = frozenset()

    @property
    def is_known(self) -> bool:
        """Whether it is a unit and nothing else."""
        return bool(self.powers) and not self.words

    def times(self, other: "Unit", power: int) -> "Unit":
        """The product with a power of another."""
        powers = Counter(dict(self.powers))
        for base, exponent in other.powers:
            powers[base] += exponent * power
        kept = frozenset((base, exponent) for base, exponent in powers.items() if exponent)
        words = other.words if power in (1, -1) else {f"{word}^{power}" for word in other.words}
        return Unit(self.factor * other.factor**power, kept, self.words | words)


DEGREE = Unit(powers=frozenset({("degree", 1)}))
_TEMPERATURES = {"degree", "celsius", "fahrenheit"}


def _table() -> dict[str, str]:
    """What each name stands for: the definition of its unit, or a base unit."""
    meanings: dict[str, str] = {}
    for line in _TABLE.strip().splitlines():
        unit, _, names = line.partition(" | ")
        symbol, _, definition = unit.partition(" = ")
        meanings |= dict.fromkeys((symbol, *names.split()), definition or symbol)
    return meanings


_MEANINGS = _table()


@lru_cache(maxsize=1024)
def unit_of(text: str) -> Unit:
    """The unit that a text names, in LaTeX or in words."""
    factors: list[tuple[Unit, int]] = []
    sign, power, is_group = 1, 1, False
    for raised, token in _TOKEN.findall(_plain(text)):
        name = _singular(token)
        if raised or name in _POWERS_BEHIND:
            if factors:
                unit, before = factors[-1]
                raised_to = before * (int(raised) if raised else _POWERS_BEHIND[name])
                factors[-1] = (unit, raised_to) if abs(raised_to) <= 9 else (Unit(words=frozenset({text})), 1)
        elif name in _PER:
            sign = -1
        elif token in "()":
            is_group, sign = token == "(", sign if token == "(" else 1
        elif name in _POWERS:
            power = _POWERS[name]
        else:
            factors.append((_named(token), sign * power))
            sign, power = sign if is_group else 1, 1
    whole = Unit()
    for unit, exponent in factors:
        whole = whole.times(unit, exponent)
    return whole


def conversion(wanted: str, given: str) -> str | None:
    """What a value in the second unit is multiplied by to be one in the first, in LaTeX; "" for 1.

    It is 1 as well where one names no unit, or another thing that is counted; None if the two cannot be equal.
    """
    first, second = unit_of(_money(wanted, given)), unit_of(_money(given, wanted))
    if _raised_otherwise(first.words, second.words):
        return None
    if first.words != second.words or Unit() in (first, second):
        return ""
    angles = (dict(first.powers), dict(second.powers))
    if angles == ({"degree": 1}, {"rad": 1}):
        return r"\frac{180}{\pi}"
    if angles == ({"rad": 1}, {"degree": 1}):
        return r"\frac{\pi}{180}"
    if DEGREE in (first, second) and first.powers != second.powers and {*angles[0], *angles[1]} < _TEMPERATURES:
        return ""  # 20 degrees may be 20 degrees Celsius
    ratio = second.factor / first.factor
    if first.powers != second.powers:
        return None
    return "" if ratio == 1 else rf"\frac{{{ratio.numerator}}}{{{ratio.denominator}}}"


def _money(unit: str, other: str) -> str:
    """The unit, with 分 as a part of a yuan and pounds as money where the other is money of that kind."""
    powers = dict(unit_of(other).powers)
    unit = re.sub(r"\bpounds?\b", "GBP", unit) if "GBP" in powers else unit
    return unit.replace("分", "fen") if powers == {"yuan": 1} else unit


def _raised_otherwise(first: frozenset[str], second: frozenset[str]) -> bool:
    """Whether two texts have one word in different powers, as square units and cubic units have."""
    raised: tuple[dict[str, set[str]], ...] = ({}, {})
    for powers, words in zip(raised, (first, second), strict=True):
        for word, _, power in (word.rpartition("^") for word in words if "^" in word):
            powers.setdefault(word, set()).add(power)
    return any(raised[1].get(word, powers) != powers for word, powers in raised[0].items())


def _plain(text: str) -> str:
    """Words, powers, strokes and brackets, without LaTeX and without accents."""
    text = re.sub(r"\^\s*(?:\{\s*)?\\circ(?![A-Za-z])", " degree ", text.replace(r"\Omega", " ohm "))
    text = re.sub(r"\^\s*\{\s*(-?\d+)\s*\}", r"^\1", text.replace(r"\mu", "μ").replace("每", "/"))
    text = re.sub(r"\\(?:[A-Za-z]+|.)|[{},*~]|[.](?!\d)", " ", text)
    text = _TEMPERATURE.sub(lambda name: f" {'fahrenheit' if (name[1] or name[2])[0] in 'fF' else 'celsius'} ", text)
    decomposed = unicodedata.normalize("NFKD", text)
    return re.sub(r"(?<=[A-Za-z])(-?\d)", r"^\1", "".join(c for c in decomposed if not unicodedata.combining(c)))


def _singular(word: str) -> str:
    """The word in small letters, without an ending that a name in the tables does not have."""
    names = (word.lower().removesuffix(ending) for ending in _ENDINGS if word.lower().endswith(ending))
    return next((name for name in names if name in _MEANINGS or name in _POWERS_BEHIND), word.lower())


def _named(word: str) -> Unit:
    """The unit with this name, with a prefix or without, or the word as it stands."""
    if word[0].isdigit():
        return Unit(Fraction(word)) if Fraction(word) else Unit(words=frozenset({word}))  # 1/0 is no unit
    if len(word) > _LONGEST_NAME:
        return Unit(words=frozenset({word}))
    meaning = _MEANINGS.get(word) or (_MEANINGS.get(_singular(word)) if len(word) > 2 or not word.isascii() else None)
    if meaning is not None:
        is_base = _MEANINGS.get(meaning) == meaning
        return Unit(powers=frozenset({(meaning, 1)})) if is_base else unit_of(meaning)
    if word[0] in _LETTERS and word[1:] in _SCALED:
        return Unit(_LETTERS[word[0]]).times(_named(word[1:]), 1)
    small = word.lower()
    for prefix, power in _POWERS.items():
        if small.startswith(prefix) and (unit := _named(small[len(prefix) :] or "?")).is_known:
            return Unit().times(unit, power)
    for prefix, letter in _PREFIXES.items():
        if small.startswith(prefix) and (unit := _named(small[len(prefix) :] or "?")).is_known:
            return Unit(_LETTERS[letter]).times(unit, 1)
    return Unit(words=frozenset({small.removesuffix("s")}))
