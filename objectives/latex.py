"""The plain equation of an objective in LaTeX: the same numbers and words, set as mathematics."""

import re

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
