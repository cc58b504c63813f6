"""The zoo's one-line formulas as prose with mathematics in it, which wraps on a phone."""

import re

from rlzoo.report.description import latex

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
