"""The zoo's one-line formulas as prose with mathematics in it."""

import re

TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)"
    r"|(?P<word>[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)?(?:'s|@\d+|-[a-z]{3,})?)"
    r"|(?P<sign>\.\.|<=|>=|\+=|-=|\*=|[-+*/=<>()\[\],|{}#%^&])"
    r"|(?P<other>\S)"
)
SIGNS = {
    "..": r"\dots ",
    "<=": r"\le ",
    ">=": r"\ge ",
    "+=": r"\mathrel{+}= ",
    "-=": r"\mathrel{-}= ",
    "*=": r"\mathrel{\times}= ",
    "*": r"\cdot ",
    "%": r"\% ",
    "#": r"\# ",
    "{": r"\{",
    "}": r"\}",
    "|": r"\vert ",
    "&": r"\& ",
}
FUNCTIONS = ("min", "max", "exp", "log", "ln", "clip", "sqrt", "sigmoid", "sg", "Cov", "std", "mean", "sum")
SYMBOLS = {"pi": r"\pi", "rho": r"\rho", "tau": r"\tau", "eps": r"\epsilon", "beta": r"\beta", "sigma": r"\sigma"}
LETTERS = set("rARIHhpqyLcDGNTnt")
PROSE_SIGNS = set(",")


def mathematics(formula: str) -> str:
    """A formula such as `A = (R - mean) / std over the group` in Markdown, symbols as formulas and words as words."""
    pieces = [_piece(match, formula) for match in TOKEN.finditer(formula)]
    written, run = [], ""
    for is_symbol, text, spaced in pieces:
        if is_symbol:
            run += (" " if spaced and run else "") + text
            continue
        written += [*([_inline(run)] if run.strip() else []), text]
        run = ""
    joined = " ".join([*written, *([_inline(run)] if run.strip() else [])])
    return re.sub(r" ([,;:.])", r"\1", joined)


def _inline(latex: str) -> str:
    """A formula in a line; what only ends a phrase stays outside."""
    body = latex.strip()
    tail = body[-1] if body[-1] in PROSE_SIGNS else ""
    body = body.removesuffix(tail).strip() if tail else body
    return (f"{{math}}`{body}`" if body else "") + tail


def _piece(match: re.Match[str], formula: str) -> tuple[bool, str, bool]:
    """Whether a token is a symbol, how it is written, and whether a space stood before it."""
    text, spaced = match.group(0), formula[match.start() - 1 : match.start()] == " "
    if match.lastgroup == "number":
        return True, _number(text), spaced
    if match.lastgroup == "sign":
        return True, SIGNS.get(text, text), spaced
    if match.lastgroup == "other":
        return False, text, spaced
    symbol = _symbol(text, formula[match.end() :])
    return (True, symbol, spaced) if symbol else (False, text, spaced)


def _symbol(word: str, behind: str) -> str:
    """LaTeX of a word that is mathematics, by what stands `behind` it; empty for one that is not."""
    base, _, index = word.partition("_")
    subscript = rf"_{{\text{{{index}}}}}" if index else ""
    if base in SYMBOLS:
        return SYMBOLS[base] + subscript
    if base in LETTERS:
        return base + subscript
    if word in FUNCTIONS and (behind.startswith("(") or word in ("log", "ln")):
        return rf"\operatorname{{{word}}}"
    if word in FUNCTIONS and behind.lstrip()[:1] in tuple(")+-/"):
        return rf"\text{{{word}}}"
    return ""


def _number(text: str) -> str:
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text
    power = f"10^{{{int(exponent)}}}"
    return power if mantissa == "1" else rf"{mantissa} \cdot {power}"
