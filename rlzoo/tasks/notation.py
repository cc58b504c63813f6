r"""One notation for what people write in many: rules from text to text, each small and with one purpose.

`typeset` brings characters, spaces and styles into plain LaTeX and changes no value: `√17` is `\sqrt{17}`, `3\,375` is
`3375`, `\Large\mathbf{7}` is `7`. `elements` cuts a list at its commas and its words *and* and *or*.

`without_unit` takes off what stands behind a value: `4.2~\text{cm}`, `300\,K`, `103 \text{ ways}`. What changes a value
is no unit: a magnitude becomes a factor (`\text{ million}` is `\cdot 10^{6}`, `\text{ percent}` is `\%`), and phrases
with words such as *not*, *or*, *squared* stay, so that no grader takes the answer for the bare value.
"""
# ruff: noqa: RUF001 (characters that look like others are what this is about)

import itertools
import re
import unicodedata
from collections.abc import Callable
from functools import partial

from rlzoo.tasks.text import closing_brace
from rlzoo.tasks.units import unit_of

Rule = Callable[[str], str]


def _greek_command(letter: str) -> str:
    *_, size, _, name = unicodedata.name(letter).replace("LAMDA", "LAMBDA").split()  # GREEK SMALL LETTER ALPHA
    return name.lower() if size == "SMALL" else name.capitalize()


_GREEK = "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"
LETTERS = (*map(_greek_command, _GREEK), "varepsilon", "vartheta", "varrho", "varphi", "ell", "hbar")
"""Commands that are letters."""
_LETTER = rf"\\(?:{'|'.join(LETTERS)}|pi)"
_SIGNS = {
    **{"×": "times", "·": "cdot", "⋅": "cdot", "∙": "cdot", "∞": "infty", "±": "pm", "∓": "mp", "≤": "le", "⩽": "le"},
    **{"≥": "ge", "⩾": "ge", "≠": "ne", "≈": "approx", "≃": "approx", "≅": "approx", "∪": "cup", "∩": "cap"},
    **{"∈": "in", "∅": "emptyset", "∖": "setminus", "⟨": "langle", "⟩": "rangle", "…": "ldots", "Å": "AA"},
    **{"∧": "land", "∨": "lor", "ℏ": "hbar", "ℓ": "ell", "≡": "equiv", "→": "to"},
}
_CHARACTERS = str.maketrans(
    {
        **{sign: rf"\{name} " for sign, name in _SIGNS.items()},
        **{letter: rf"\{_greek_command(letter)} " for letter in _GREEK},
        **{letter: rf"\mathbb{{{name}}}" for letter, name in zip("ℝℤℕℚℂ", "RZNQC", strict=True)},
        **dict.fromkeys("−–﹣－", "-"),
        **dict.fromkeys("÷∕⁄", "/"),
        **dict.fromkeys("°º", r"^\circ "),
        **dict.fromkeys("“”‘’′", ""),
        "∶": ":",
        "¢": r"\text{ cents}",
    }
)
_ARC = re.compile(
    r"(?<![\d.])(\d{1,4})\s?(?:[°º]|\^\s?\{?\s?\\circ\s?\}?)\s?([0-5]?\d)\s?"
    r"(?:['’′]|\^\s?\{?\s?\\prime\s?\}?)(?!\s?['\d])"
)
_SCRIPTS = {"^": "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "_": "₀₁₂₃₄₅₆₇₈₉₊₋ₙ"}
_PLAIN_SCRIPTS = "0123456789+-n"
_FRACTION = re.compile("[¼-¾⅐-⅞]")
_ROOT = re.compile(r"√\s*(?:\(([^()]*)\)|(\d+(?:\.\d+)?|[A-Za-z]|\\[a-z]+))|\\?\bsqrt\s*\(([^()]*)\)")

_COMMA = r"(?:\\(?:text\w*|mathrm|mathord|mathpunct|mbox)\s?\{,\}|\{\s?,\s?\})"
_THIN = rf"(?: |~|\s?\\[ ,;:!]\s?|\s?\\thinspace\s?|{_COMMA}|,\\!\s?|\\!,)"
_THOUSANDS = re.compile(rf"(?<![\w.^}}\\])\d{{1,3}}(?:{_THIN}\d{{3}})+(?![\d.]*\d*!|\d)")
_SPACE = re.compile(
    r"(?<!\\)\\(?:[,;: >]|$)|~|\\(?:text|mathrm|mbox)\s*\{\s*[.,;]?\s*\}|\\[hv]space\*?\s*\{[^{}]*\}"
    r"|\\(?:quad|qquad|enspace|enskip|thinspace|medspace|thickspace|nobreakspace|hfill)(?![A-Za-z])"
)
_STYLE = re.compile(
    r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|tiny|scriptsize|footnotesize|small|normalsize|large|Large|"
    r"LARGE|huge|Huge|bf|rm|it|sf|tt|bfseries|itshape|boldmath|noindent|centering|strut|checkmark|blacksquare|"
    r"square|qed|left\s*\.|right\s*\.|left|right|"
    r"middle|[bB]igg?[lrm]?)(?![A-Za-z])|\\!\s*|\\color\s*\{[^{}]*\}"
)
_DOLLAR = re.compile(r"(?<!\\)(?:\$|\\[()\[\]])")
_STOP = re.compile(r"(?<![\\.])[.,;]+$")
_E_NOTATION = re.compile(r"(?<![\w.\\])([-+]?(?:\d+\.?\d*|\.\d+))[eE]([-+]?\d+)(?![\w.])")
_NUMPY = re.compile(r"\bnp\.(?=[a-z])")
_CURRENCY = re.compile(r"\\\$|\\(?:textdollar|pounds|euro|texteuro)(?![A-Za-z])|[€£¥₹]|\bUSD\b")
_MONEY = re.compile(r"^(\\\$|[€£])\s?([\d.,]+)(?:\s?\\text\s?\{\s?(per [^{}]*)\})?$")
_CURRENCIES = {r"\$": "dollars", "€": "euro", "£": "GBP"}
_SYNONYMS = tuple(
    (re.compile(rf"(?:{pattern})(?![A-Za-z])"), name)
    for pattern, name in (
        (r"\\leqslant|\\leq", r"\\le"),
        (r"\\geqslant|\\geq", r"\\ge"),
        (r"\\neq", r"\\ne"),
        (r"\\simeq|\\cong|\\doteq|\\approxeq|\\thickapprox|\\thicksim|\\sim", r"\\approx"),
        (r"\\varnothing|\\\{\s*\\\}", r"\\emptyset"),
        (r"\\degree|\\textdegree", r"^\\circ"),
        (r"\\wedge", r"\\land"),
        (r"\\vee", r"\\lor"),
        (r"\\colon|\\ratio", ":"),
        (r"\\lbrace", r"\\{"),
        (r"\\rbrace", r"\\}"),
        (r"\\div", "/"),
        (r"\\(?:text)?euro", "€"),
        (r"\\cr|\\tabularnewline", r"\\\\"),
        (r"_\s?\{\s?\\(max|min)\s?\}", r"_{\1}"),
        (r"_\s?\{\s?\\(?:text\w*|mathrm)\s?\{\s?([A-Za-z]+)\s?\}\s?\}", r"_{\1}"),
        (r"\\mathbb\s?([A-Z])", r"\\mathbb{\1}"),
        (r"\\lg", r"\\log_{10}"),
        (r"\\(?:hat|vec)\s?(\{)?\s?\\?([ijk])(?:math)?\s?(?(1)\})", r" \2 "),
        (r"\\[ldc]frac|\\tfrac", r"\\frac"),
        (rf"(\\frac|\\sqrt(?:\s?\[\d\])?)\s?({_LETTER})", r"\1{\2}"),
        (r"(\\frac)\s([A-Za-z\d])", r"\1{\2}"),
        (rf"(\\frac\s?(?:[A-Za-z\d]|\{{[^{{}}]*\}}))\s?({_LETTER}|(?<=\s)[A-Za-z\d])", r"\1{\2}"),
        (r"(\\sqrt\s?\[\d\])\s?(\d)", r"\1{\2}"),
        (r"\\\\\s?\[-?[\d.]{1,8}\s?[a-z]{2}\]", r"\\\\"),
        (r"_\s*([A-Za-z\d])", r"_{\1}"),
        (r"\\frac\s*\{\s*\\text\s*\{([^{}]*)\}\s*\}\s*\{\s*\\text\s*\{([^{}]*)\}((?:\^\d)?)\s*\}", r"\\text{\1/\2\3}"),
        (r"[(\[]?\s*\\begin\s*\{array\}\s*\{[clr|\s]*\}", r"\\begin{pmatrix}"),
        (r"\\end\s*\{array\}\s*[)\]]?", r"\\end{pmatrix}"),
    )
)
_HIDDEN = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\(?:overline|bar|dot)\s*(?:\{\s*(\d+)\s*\}|(\d))(?![\d.])")
_PERIOD = re.compile(r"(?<![\w.)}])(\d*\.|0?\.\d*)\((\d+)\)(?![\w.(^])")
_DOTS = re.compile(
    r"(?<![\d.])(\d*\.\d{0,9}?)(\d{1,6}?)\2{2,}\s*(?:\\[lc]?dots(?![A-Za-z])|\.\.\.|\\dots[a-z](?![A-Za-z]))(?!\s*\d)"
)
"""Three periods or more: fewer may be chance."""
_MOST_PLACES = 9
_LARGEST = 10**300
"""A percentage up to which it is written as a decimal."""
_MIXED_PERCENT = re.compile(
    r"(?<![\w.^}])(\d+)\s*\\frac\s*(?:\{(\d+)\}|(\d))\s*(?:\{(\d+)\}|(\d))(?=\s*\\?%|\s*\\text\s*\{\s*(?:%|percent))"
)
_FRACTION_PERCENT = re.compile(
    r"\\frac\s*(?:\{(\d+)\}|(\d))\s*(?:\{(\d+)\}|(\d))\s*(?:\\?%|\\text\s*\{\s*(?:\\?%|percent)\s*\})"
)
_DEGREES = re.compile(
    r"(\\(?:sin|cos|tan|cot|sec|csc)(?:\s*\^\s*(?:[2-9]|\{\s*[2-9]\s*\}))?)\s*[({]?\s*(\d+(?:\.\d+)?)\s*\)?"
    r"\s*\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})\s*[)}]?"
)
_BRACED_COLON = re.compile(r"(?<![A-Za-z])\{\s*:\s*\}")
_IMAGINARY = re.compile(r"(?<=\d)\s*i(?![A-Za-z])")
_MORE_DIGITS = re.compile(r"(?<=\d)\s*(?:\\[lc]?dots(?![A-Za-z])|\.\.\.)$")
_MIXED = re.compile(r"(?<![\d./^_])(\d{1,9})(?:\s|\\\s)\s?(\d{1,9})\s?/\s?(\d{1,9})(?![\d./])")
_BARS = re.compile(r"(?<!\\)\\\||\\[lr]?[vV]ert(?![A-Za-z])|^\\mid(?![A-Za-z])(?=.*\\mid$)|(?<=.)\\mid$")
_ROUNDED = re.compile(r"\(\s*(\\approx(?![A-Za-z])[^()]*)\)$")


def in_latex(text: str) -> str:
    """Unicode mathematics and ASCII roots as LaTeX."""
    text = _FRACTION.sub(_latex_fraction, text)
    for sign, characters in _SCRIPTS.items():
        text = re.sub(f"[{characters}]+", partial(_script, sign, characters), text)
    text = unicodedata.normalize("NFKC", text.translate(_CHARACTERS)).translate(_CHARACTERS)
    return _ROOT.sub(lambda root: rf"\sqrt{{{root[1] or root[2] or root[3]}}}", text)


def _latex_fraction(character: re.Match[str]) -> str:
    over, _, under = unicodedata.normalize("NFKC", character[0]).partition("⁄")
    return rf"\frac{{{over}}}{{{under}}}"


def with_whole_degrees(text: str) -> str:
    r"""`22^\circ 30'` is `\frac{1350}{60}^\circ`."""
    return _ARC.sub(lambda angle: rf"\frac{{{60 * int(angle[1]) + int(angle[2])}}}{{60}}^\circ ", text)


def _script(sign: str, characters: str, run: re.Match[str]) -> str:
    return sign + "{" + run[0].translate(str.maketrans(characters, _PLAIN_SCRIPTS)) + "}"


def without_thousands_separators(text: str) -> str:
    r"""`3\,375`, `3\ 375`, `3{,}375`, `3 375` are 3375. Commas stay: the engine knows them."""
    return _THOUSANDS.sub(lambda number: re.sub(r"\D", "", number[0]), text)


def without_dollars(text: str) -> str:
    """Neither dollars, brackets nor stars around mathematics, nor a full stop behind it."""
    return _STOP.sub("", _DOLLAR.sub("", text).strip(" *`")).strip()


def without_style(text: str) -> str:
    r"""Neither sizes, colours, frames nor `\left`; every kind of space is a space."""
    for command in ("boxed", "fbox", "ensuremath", "underline", "uline"):
        text = rewritten(text, command, lambda content: content)
    text = rewritten(re.sub(r"\\(?:textcolor|colorbox)\s*\{[^{}]*\}", r"\\mbox", text), "phantom", lambda _: "")
    return _SPACE.sub(" ", _STYLE.sub("", text)).replace("{,}", ",").strip()


def without_bold(text: str) -> str:
    r"""`\mathbf{\frac12}` and `\text{103 cm}` are their content; words alone stay words, as `\text{...}`."""
    text = rewritten(text, r"(?:text|textrm|mbox|mathrm|textnormal)", _number_as_it_stands)
    for command in ("mathbf", "boldsymbol", "bm", "pmb", "textbf", "mathsf", "mathtt", "mathnormal", "emph"):
        text = rewritten(text, command, _as_it_stands)
    return text


_OPTIONS = re.compile(r"\s?\(?[A-Z]\)?(?:(?:, and |,? ?& ?| and |, ?)\(?[A-Z]\)?)+\.?")


def _as_it_stands(content: str) -> str:
    is_word = re.fullmatch(r"[^\d\\^_+=]*[A-Za-z]{2}[^\d\\^_+=]*", content)
    return rf"\text{{{content}}}" if is_word else content


def _number_as_it_stands(content: str) -> str:
    is_number = re.match(r"\s*[-+$\\]*\.?\d|[^{}]*[=:]\s*[^{}\s]|[^{}]*\bbase\b", content)
    return content if is_number or _OPTIONS.fullmatch(content) else rf"\text{{{content}}}"


def with_one_name_each(text: str) -> str:
    r"""One command where LaTeX has several: `\leq` is `\le`."""
    for pattern, name in _SYNONYMS:
        text = pattern.sub(name, text)
    return text


def with_periods(text: str) -> str:
    r"""`0.(6)` and `0.666\ldots` are `0.\overline{6}`; `2.5(3)` is a product."""
    return _PERIOD.sub(r"\1\\overline{\2}", _DOTS.sub(r"\1\\overline{\2}", text))


def with_plain_bars(text: str) -> str:
    r"""`\|x\|`, `\lvert x \rvert` and `\mid x \mid` are `|x|`."""
    return _BARS.sub("|", text)


def with_plain_numbers(text: str) -> str:
    r"""`2.73\ldots` is 2.73, `3./2` `3/2`, `2 1/2` `2\frac{1}{2}`, and `2 and a half` 2.5.

    `(\approx 2.73)` has no brackets, `10{:}30` no braces.

    The `i` of `9i` stands alone: only by itself it is math-verify's imaginary unit.
    """
    text = _MIXED.sub(_mixed, _ROUNDED.sub(r"\1", _MORE_DIGITS.sub("", text)))
    text = re.sub(r"(?<=\d)\.(?=\s?[-+*/)}])", "", re.sub(r"(?<=\d) and a half\b", ".5", text))
    return _IMAGINARY.sub(" i", _BRACED_COLON.sub(":", text))


def _mixed(number: re.Match[str]) -> str:
    whole, above, below = number.groups()
    return rf"{whole}\frac{{{above}}}{{{below}}}" if int(above) < int(below) else number[0]


def with_exact_numbers(text: str) -> str:
    r"""`0.8\overline{3}` is a fraction, `7\frac12\%` one as well, and `\cos 60^\circ` has its argument in radians."""
    text = _REPEATING.sub(_fraction_of_repeating, text)
    text = _FRACTION_PERCENT.sub(_percentage, _MIXED_PERCENT.sub(_fraction_of_mixed, text))
    return _DEGREES.sub(r"\1(\\frac{\2 \\pi}{180})", text)


def _fraction_of_repeating(decimal: re.Match[str]) -> str:
    whole, fixed, period = decimal[1] or "0", decimal[2], decimal[3] or decimal[4]
    nines = (10 ** len(period) - 1) * 10 ** len(fixed)
    return rf"\frac{{{int(whole + fixed + period) - int(whole + fixed)}}}{{{nines}}}"


def _fraction_of_mixed(number: re.Match[str]) -> str:
    above, below = int(number[2] or number[3]), int(number[4] or number[5])
    return rf"\frac{{{int(number[1]) * below + above}}}{{{below}}}"


def _percentage(fraction: re.Match[str]) -> str:
    """A decimal that keeps its sign where it has an end, as an answer may leave the sign out."""
    above, below = int(fraction[1] or fraction[2]), int(fraction[3] or fraction[4])
    fits = below and above < _LARGEST * below
    ended = next((places for places in range(1, _MOST_PLACES) if fits and above * 10**places % below == 0), None)
    return rf"\frac{{{above}}}{{{100 * below}}}" if ended is None else rf"{above / below:.{ended}f}\%"


def with_powers_of_ten(text: str) -> str:
    r"""Minerva's notations as LaTeX: `4.5e33` is `4.5\times 10^{33}`, `np.arcsin` is `\arcsin`."""
    return _NUMPY.sub(r"\\", _E_NOTATION.sub(r"\1\\times 10^{\2}", text))


def without_currency(text: str) -> str:
    r"""No signs of money; a sum alone, `\$5`, is `5 \text{dollars}`."""
    if money := _MONEY.match(re.sub(r"^([\d.,]+)\s?([€£])$", r"\2\1", text)):
        return rf"{money[2]} \text{{{_CURRENCIES[money[1]]} {money[3] or ''}}}"
    return _CURRENCY.sub("", text).strip()


def with_scaled_entries(text: str) -> str:
    r"""A number times a matrix is the matrix of the products."""
    before, begin, matrix = text.partition(r"\begin{")
    head, _, scalar = before.rpartition("=")
    scalar = re.sub(r"\\(?:cdot|times)\s*$", "", scalar.strip())
    whole = re.fullmatch(r"([pbB]?matrix|smallmatrix)\}(.*)\\end\{\1\}", matrix, re.DOTALL)
    if whole is None or begin in whole[2] or not scalar or "," in scalar or not _is_closed(scalar):
        return text
    if _is_sum(scalar):  # its last term alone would be a factor
        return text
    factor = {"-": "-1", "+": "1"}.get(scalar, scalar)
    lines = [
        " & ".join(rf"({factor}) \cdot ({entry.strip()})" for entry in line.split("&")) for line in _lines(whole[2])
    ]
    return (head and f"{head}=") + rf"{begin}{whole[1]}}} " + r" \\ ".join(lines) + rf" \end{{{whole[1]}}}"


def _is_closed(text: str) -> bool:
    return text.count("(") == text.count(")") and text.count("{") == text.count("}") and "[" not in text


def _is_sum(text: str) -> bool:
    """Whether a + or - stands behind the first character, outside of brackets."""
    depths = itertools.accumulate((it in "({") - (it in ")}") for it in text)
    return any(it in "+-" and not depth for it, depth in list(zip(text, depths, strict=True))[1:])


def with_spaced_lists(text: str) -> str:
    """Commas in brackets part values, as in `(3,125)` and `[1,100)`; those of `(1,000)` and `(1,500, 2,500)` do not."""
    return _LIST.sub(_spaced, text)


_LIST = re.compile(
    r"((?:^|[,;=]|\\c[au]p|\\in)\s*[(\[])([^()\[\]+*/=<>]{0,400},\d{3}(?!\d)[^()\[\]+*/=<>]{0,400})(?=[)\]]\s*(?:$|[,;]|\\c[au]p))"
)


def _spaced(inside: re.Match[str]) -> str:
    bracket, items = inside[1], inside[2]
    if re.search(r"[\w}]\s?-", items):  # a difference
        return inside[0]
    numbers = items.split(", ")
    are_whole = all(re.fullmatch(r"\s*-?\d{1,3}(?:,\d{3})*[^\d,]*", number) for number in numbers)
    is_marked = ",0" in items or all("," in number for number in numbers)  # (100, 200,300) may have three values
    if len(numbers) > 1 and are_whole and is_marked:
        return bracket + re.sub(r",(?=\d)", "", items)
    return bracket + re.sub(r"(?<=\d),(?=0\d\d(?!\d))", "", items).replace(",", ", ")


def without_thousands_commas(text: str) -> str:
    r"""`1,200\pi` is `1200\pi`. Inside of ( [ and \{, and behind `x=`, commas part values."""
    signs = ((it in "([") - (it in ")]") for it in text.replace(r"\{", " (").replace(r"\}", " )"))
    depth = list(itertools.accumulate(signs, initial=0))
    return _WITH_COMMAS.sub(lambda it: it[0] if depth[it.start()] else it[0].replace(",", ""), text)


_WITH_COMMAS = re.compile(r"(?<![\w.,=])(?<!=\s)[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)")


def with_columns_as_tuples(text: str) -> str:
    r"""A column vector, `\langle 1, 2 \rangle` and equations in lines are lists of what they hold."""
    text = _COLUMN.sub(
        lambda column: "(" + ", ".join(_lines(column[2])) + ")" if "&" not in column[2] else column[0], text
    )
    text = _LINES.sub(lambda lines: ", ".join(_lines(lines[2].replace("&", ""))), text)
    text = re.sub(r"\\langle(?![A-Za-z])(.*?)\\rangle(?![A-Za-z])", r"(\1)", text)
    return re.sub(r"(\))\s*\^\s*\{?\s*(?:T|\\top|\\intercal)\s*\}?$", r"\1", text)


_COLUMN = re.compile(
    r"\\begin\s*\{([pbB]?matrix|smallmatrix)\}((?:(?!\\begin).)*?\\\\(?:(?!\\begin).)*?)\\end\s*\{\1\}", re.S
)
_LINES = re.compile(r"\\begin\s*\{(cases|aligned|align\*?|gathered|split)\}((?:(?!\\begin).)*?)\\end\s*\{\1\}", re.S)


def _lines(text: str) -> list[str]:
    return [line.strip().rstrip(",").strip() for line in text.split(r"\\") if line.strip()]


def with_single_spaces(text: str) -> str:
    """No run of white space, which would also cost the patterns of later rules much time, and nothing without width."""
    return re.sub(r"\s+", " ", _HIDDEN.sub("", text)).strip()


TYPESETTING: tuple[Rule, ...] = (
    with_single_spaces,
    with_whole_degrees,
    in_latex,
    without_thousands_separators,
    with_periods,
    without_dollars,
    without_style,
    with_single_spaces,
    without_bold,
    with_one_name_each,
    with_plain_bars,
    with_plain_numbers,
    with_exact_numbers,
    with_powers_of_ten,
    without_currency,
    with_scaled_entries,
    with_columns_as_tuples,
    without_dollars,
    with_spaced_lists,
    without_thousands_commas,
)


def typeset(answer: str) -> str:
    """The answer after all rules of TYPESETTING, in their order."""
    for rule in TYPESETTING:
        answer = rule(answer)
    return answer


def rewritten(text: str, command: str, rewrite: Rule) -> str:
    r"""The text with `rewrite(content)` for every `\command{content}`, from the left, those inside others included."""
    pattern = re.compile(rf"\\{command}\s*\{{")
    start = 0
    while match := pattern.search(text, start):
        end = closing_brace(text, match.end())
        if end is None:
            return text
        content = rewrite(text[match.end() : end])
        text = text[: match.start()] + content + text[end + 1 :]
        start = match.start() if content == "" or not content.startswith("\\text") else match.start() + len(content)
    return text


_ANDS, _ORS = "and|&|und|et|和|与|及", "or|oder|ou|или|或"
_LETTERED = r"(?<=[\w)}\],;])(?<!\\cdot)(?<!\\times)\s*\\text\s*\{\s+[LETTERS]\s+\}(?=\s*[-\w\\(\[{])"
"""A word of one letter, which joins only what stands on both its sides: `x+\text{ y }` is a sum."""
_Y, _O = (_LETTERED.replace("LETTERS", letters) for letters in ("yeи", "o"))
_AND = rf"{_Y}|\\text\s*\{{\s*,?\s*(?:{_ANDS})\s*,?\s*\}}|(?<![A-Za-z\\])and(?![A-Za-z])|\\land(?![A-Za-z])|\\&"
_OR = rf"{_O}|\\text\s*\{{\s*,?\s*(?:{_ORS})\s*,?\s*\}}|(?<![A-Za-z\\])or(?![A-Za-z])|\\lor(?![A-Za-z])"
_BETWEEN_ELEMENTS = re.compile(rf"[,;]?\s*(?:{_OR}|{_AND})\s*[,;]?|[,;]")
_BETWEEN_ALTERNATIVES = re.compile(_OR)


def elements(text: str) -> list[str]:
    """What stands between commas, semicolons and the words *and*, *or*; the comma of 1,234 separates nothing."""
    return [part for part in cut(text, _BETWEEN_ELEMENTS)[0] if part]


def alternatives(text: str) -> list[str]:
    """What stands between the words *or*."""
    return [part for part in cut(text, _BETWEEN_ALTERNATIVES)[0] if part]


def cut(text: str, separator: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """The parts between separators outside all brackets, stripped, and those separators, one fewer."""
    depth = list(itertools.accumulate(((character in "([{") - (character in ")]}") for character in text), initial=0))
    parts, separators, start = [], [], 0
    for match in separator.finditer(text):
        if depth[match.start()] == 0 and not _is_thousands_comma(text, match):
            parts.append(text[start : match.start()].strip())
            separators.append(match[0])
            start = match.end()
    return [*parts, text[start:].strip()], separators


def rising(text: str) -> str:
    """`3 > x > 1` as `1 < x < 3`."""
    members, signs = cut(text, _FALLS)
    if not signs or _RISES.search(text) or len(elements(text)) > 1:
        return text
    signs = [{">": "<"}.get(sign, r"\le") for sign in signs]
    return " ".join(itertools.chain(*zip(members[:0:-1], reversed(signs), strict=True), members[:1]))


_FALLS, _RISES = re.compile(r">|\\ge(?![A-Za-z])"), re.compile(r"[<=]|\\(?:le|ne)(?![A-Za-z])")


def _is_thousands_comma(text: str, match: re.Match[str]) -> bool:
    follows = match[0] == "," and re.match(r"\d{3}(?!\d)", text[match.end() :])
    return bool(follows and re.search(r"(?<!\d)\d{1,3}(?:,\d{3})*$", text[: match.start()]))


_SYMBOL = (
    r"(?:(?:[fpnumckMGT]|da)?(?:m|g|s|A|K|mol|N|J|W|V|C|F|H|T|Hz|Pa|eV|L|l|bar|cal|pc|ohms?)|cd|rad|sr|degs?|mins?|h|hrs?|"
    r"secs?|d|yrs?|atm|amu|AU|ly|ergs?|dyn|dynes?|ft|in|yd|mi|lbs?|oz|mph|kmh|kph|rpm|sq|cu|cc)"
)
_BARE = rf"(?<![A-Za-z\\]){_SYMBOL}(?![A-Za-z]|\\Omega)"
_COMMAND = (
    r"(?:\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})(?:\s*[CFK](?![A-Za-z]))?+|\\AA(?![A-Za-z])|\\mathring\s*\{\s*A\s*\}|"
    rf"(?:(?<![A-Za-z\\])[kMGm]|\\mu\s*)?\\Omega(?![A-Za-z])|\\mu\s+{_BARE}|\\mu(?=\s*\\(?:text|math)))"
)
_UPRIGHT = r"\\(?:text(?:rm|normal|up|it|sf)?|mathrm|mbox|hbox|operatorname|unit|si)\s*\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"
_POWER = r"(?:\s*\^\s*(?:\{\s*-?\s*\d\s*\}|-?\d(?!\d)))?"
_FACTOR = rf"(?:{_UPRIGHT}|{_COMMAND}|{_BARE}){_POWER}"
_FURTHER = rf"\s*(?:(?:\\cdot(?![A-Za-z])|[/*.])\s*)?\(?{_FACTOR}\)?"
_TAIL = re.compile(rf"\s*(?:/\s*)?\(?\s*{_FACTOR}(?:{_FURTHER})*\s*\)?\.?\s*$")

_CONTENT = re.compile(r"\\[a-z]+\s*\{(.*)\}", re.DOTALL)
_BARE_WORDS = re.compile(r"(?:(?<=[\d)}])|(?<=\\pi))\s+((?:[A-Za-z]+\s+)*[A-Za-z]{4,}(?:\s+[A-Za-z]+)*)\.?$")
_SHORT_UNIT = re.compile(r"^([^A-Za-z\\]*\d)\s+((?:cm|mm|km|kg|ft|lb|oz|hr|yd|mi|[A-Za-z]{3})s?)\.?$")
"""No unit that may as well be a product, as `mg` and `nm`."""
_HAN = r"\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3"
"""Characters of Chinese, Japanese and Korean."""
_BARE_HAN = re.compile(rf"(?<=[\d)}}])\s?([{_HAN}][{_HAN}/]*)$")
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
    rf"choose|{'|'.join(MAGNITUDES)})s?\b|[不非或万亿百千倍半上下多少余约分之第]",
    re.IGNORECASE,
)
_PUNCTUATION = re.compile(r"\\(?:cdot|times|mu|Omega|AA|circ|text|mathrm|[,;: ])|[\s/.*'^{}°()-]")
_POWER_OF_A_UNIT = re.compile(r"(?<=[A-Za-z])\s*\^?\s*\{?\s*-?\d\s*\}?(?!\d)")


def without_unit(text: str, bare: bool) -> tuple[str, str]:
    r"""The value and the unit behind it, "" if there is none. A text that is nothing but words is a value.

    Letters in italics that stand alone, such as the K of `300\,K`, are a unit only if `bare`.
    """
    text = _SHORT_UNIT.sub(lambda it: rf"{it[1]} \text{{{it[2]}}}" if unit_of(it[2]).is_known else it[0], text)
    text = _BARE_HAN.sub(r" \\text{\1}", _UPRIGHT_PREFIX.sub(r"\1", _BARE_WORDS.sub(r" \\text{\1}", text)))
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


def _is_unit(words: str) -> bool:
    """Whether words in upright letters may follow a value without changing it."""
    if unit_of(words).is_known:
        return True
    if _CHANGES_THE_VALUE.search(words):
        return False
    if re.search(r"\\(?:AA|Omega|circ)(?![A-Za-z])", words):
        return True
    letters = _PUNCTUATION.sub(" ", _POWER_OF_A_UNIT.sub(" ", words)).split()
    return bool(letters) and all(re.fullmatch(rf"{_SYMBOL}|a|[^\W\d_]{{2,}}|[{_HAN}]", word) for word in letters)


def _is_longer(unit: str) -> bool:
    """Whether it begins with more than one letter: 4cm has a unit, 4m may be a product."""
    return re.match(r"[A-Za-z]{2}", unit) is not None
