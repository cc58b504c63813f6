r"""Mathematical answers in `\boxed{}`, compared by math-verify.

Math-verify parses the gold answers of common benchmarks differently when they stand bare: 108 of MATH-500's do not even
match themselves. So gold and response go the same way: both are normalised, wrapped in `\boxed{}`, and parsed as LaTeX
only. Without math-verify's search for unboxed numbers a response that does not close its box earns nothing.
"""

import logging
import math
import re
from functools import lru_cache
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify

# The pool kills what takes too long; math-verify warns once that nobody else does.
logging.getLogger("math_verify").setLevel(logging.ERROR)

LONGEST_ANSWER = 1000
"""Characters. Gold answers of the usual benchmarks have at most 210; parsing far longer ones only costs time."""

_E_NOTATION = re.compile(r"(?<![\w.\\])([-+]?(?:\d+\.?\d*|\.\d+))[eE]([-+]?\d+)(?![\w.])")
_NUMPY = re.compile(r"\bnp\.(?=[a-z])")
_DOLLAR = re.compile(r"(?<!\\)\$")
_STOP = re.compile(r"(?<!\\)[.,]$")


def equivalent(gold: str, answer: str) -> bool:
    """Whether math-verify finds the two equal; bounded neither in time nor in memory, so call it in a `GraderPool`."""
    if len(answer) > LONGEST_ANSWER:
        return False
    parsed = _gold(gold)
    zeros = _zeros(parsed)
    return bool(verify(parsed, _parsed(answer), 6 + zeros, 15 + zeros, timeout_seconds=None))


def normalised(answer: str) -> str:
    r"""Minerva's notations as LaTeX: `4.5e33` is `4.5\times 10^{33}`, `np.arcsin` is `\arcsin`. Dollars go."""
    answer = _DOLLAR.sub("", answer).strip()
    answer = _E_NOTATION.sub(r"\1\\times 10^{\2}", _STOP.sub("", answer))
    return _NUMPY.sub(r"\\", answer)


def _parsed(answer: str) -> list[Any]:
    latex = LatexExtractionConfig(try_extract_without_anchor=False, boxed_match_priority=0)
    return parse(rf"\boxed{{{normalised(answer)}}}", [latex], extraction_mode="first_match", parsing_timeout=None)


@lru_cache(maxsize=4096)
def _gold(answer: str) -> list[Any]:
    return _parsed(answer)


def _zeros(gold: list[Any]) -> int:
    """How many zeros the gold answer, if a number, has behind the point: math-verify counts decimals, not digits."""
    try:
        size = abs(float(gold[0]))
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0
    return max(0, -1 - math.floor(math.log10(size))) if 0 < size < math.inf else 0
