"""The zoo's one-line formulas as prose with mathematics in it, which wraps on a phone."""

import re

WORDS = re.compile(r"\\text\{ (.*?) \}")
LONG = 60
"""Characters of LaTeX that a phone may have no room for."""
PHRASE = re.compile(r"([,;:.]?) *(.*?) *([,;:.]?)")


def mathematics(line: str) -> str:
    """A formula such as `A = (R - mean) / std over the group` in Markdown, symbols as formulas and words as words."""
    pieces = WORDS.split(latex(line))
    written = [piece if place % 2 else _inline(piece.strip()) for place, piece in enumerate(pieces)]
    joined = " ".join(piece for piece in written if piece)
    return re.sub(r" (?=[,;:.]|\{math\}`[)\]])|(?<=[(\[]`) ", "", joined)


def _inline(formula: str) -> str:
    """A formula in a line, which may break behind a comma, and a long one before a plus as well.

    What only begins or ends a phrase stays outside.
    """
    before, body, behind = PHRASE.fullmatch(formula).groups()  # type: ignore[union-attr]
    pieces = [part for piece in re.split(r" ?(?<=,) ", body) for part in _short(piece)]
    return " ".join(filter(None, [before, *(f"{{math}}`{piece}`" for piece in pieces if piece)])) + behind


def _short(formula: str) -> list[str]:
    parts = re.split(r" (?=\+ )", formula) if len(formula) > LONG else [formula]
    return [part.strip() for part in parts]


# ---- LaTeX -----------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?|\.\.|[A-Za-z@][\w@'.-]*(?<![.-])|[<>=*+-]=|.")
_SYMBOLS = dict.fromkeys(["A", "G", "H", "I", "L", "R", "r", "p", "q", "c", "h", "s", "y", "z", "D"], "{}")
_SYMBOLS |= dict.fromkeys(["pi", "tau", "rho"], "\\{}") | dict.fromkeys(["min", "max", "exp", "log", "ln"], "\\{}")
_SYMBOLS |= dict.fromkeys(
    ["clip", "sg", "sigmoid", "Cov", "std", "tv", "square", "k1", "k2", "k3"], r"\operatorname{{{}}}"
)
_FACTOR = r"(?:[^()\[\],]|\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\])*?"
_SIGNS = {"<=": r"\leq ", ">=": r"\geq ", "*": r"\cdot ", "%": r"\% ", "#": r"\# ", "..": r"\ldots ", " ": " "}


def latex(equation: str) -> str:
    """What an objective's `equation` says, one aligned line for each part, for an `aligned` environment."""
    return " \\\\\n".join(_line(part) for part in equation.split("; "))


def _line(text: str) -> str:
    text = re.sub(rf"^(\w+) \*= ({_FACTOR})(?= where| on |, |$)", r"\1 <- (\2) \1", text)
    text = re.sub(r"^(\w+) ([+-])= ", r"\1 <- \1 \2 ", text)
    out: list[str] = []
    for token in _TOKEN.findall(text.replace("<-", "←")):
        word = token[0].isalpha() and _symbol(token) is None
        if word and out and out[-1].startswith(r"\text{"):
            out[-1] = f"{out[-1].rstrip()[:-1].rstrip()} {token} }}"
        elif word:
            out.append(rf"\text{{ {token} }}")
        elif token != " " or not (out and out[-1].startswith(r"\text{")):
            out.append(_set(token))
    return _rooted("".join(out).strip())


def _symbol(name: str) -> str | None:
    """A name as mathematics, with its index if it has one; None for a word."""
    stem, _, index = name.partition("_")
    if stem not in _SYMBOLS or "-" in name or "@" in name:
        return None
    return _SYMBOLS[stem].format(stem) + (rf"_{{\mathrm{{{index}}}}}" if index else "") + " "


def _set(token: str) -> str:
    if token[0].isdigit() and "e" in token:
        digits, _, power = token.partition("e")
        return (rf"{digits} \cdot " if digits != "1" else "") + f"10^{{{int(power)}}}"
    return r"\leftarrow " if token == "←" else _SIGNS.get(token) or _symbol(token) or token


def _rooted(text: str) -> str:
    """Square roots over what is in their parentheses."""
    while (at := text.find(r"\text{ sqrt }(")) >= 0:
        start = at + len(r"\text{ sqrt }(")
        end, depth = start, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = text[:at] + rf"\sqrt{{{text[start : end - 1]}}}" + text[end:]
    return text
