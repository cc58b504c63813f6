"""How figures and names are written, wherever the leaderboard is shown."""

import re
import unicodedata
from collections.abc import Mapping, Sequence

from rlzoo.comparing.leaderboard import Leaderboard, Row
from rlzoo.comparing.verdicts import Difference
from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.intervals import Estimate

AFTER = re.compile(r"(?<=[-+_(),=:# ])(?=\w)")
"""Where an expression may be broken: never inside a word."""


def percent(estimate: Estimate) -> str:
    """`75.2 [73.0, 77.4]`."""
    return f"{100 * estimate.mean:.1f} {interval(estimate)}"


def points(difference: Estimate | None) -> str:
    """`+3.1 [-1.0, 7.2]`."""
    return "-" if difference is None else f"{signed(difference)} {interval(difference)}"


def signed(difference: Estimate) -> str:
    """`+3.1`."""
    return f"{100 * difference.mean:+.1f}"


def interval(estimate: Estimate) -> str:
    """`[73.0, 77.4]`."""
    return f"[{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def probability(value: float | None) -> str:
    """Two digits."""
    return "-" if value is None else f"{value:.2f}"


def p_value(difference: Difference | None) -> str:
    """Three digits that count, so that 0.0502 does not look like 0.05."""
    if difference is None:
        return "-"
    return "<0.001" if difference.p_value < 0.001 else f"{difference.p_value:.3g}"


def seeds_needed(difference: Difference | None) -> str:
    """How many seeds would find a difference like this."""
    return "-" if difference is None or difference.seeds_needed == 0 else str(difference.seeds_needed)


# ---- text that others wrote ------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    r"""With control characters, and marks that turn the direction of writing, as `\u202e`; lines stay lines."""
    return "".join(_escaped(it) if unicodedata.category(it) in ("Cc", "Cf", "Cs") else it for it in text)


def _escaped(character: str) -> str:
    return character if character in "\n\t\u200d" else f"\\u{ord(character):04x}"


def pieces(text: str) -> list[str]:
    """An expression, cut wherever a line may end in it."""
    return AFTER.split(text)


def folded(text: str, width: int) -> str:
    """An expression in lines of at most `width` characters, broken inside a word only if that alone is longer."""
    lines = [""]
    for piece in pieces(text):
        if len(lines[-1]) + len(piece.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.strip() for line in lines)


# ---- sentences -------------------------------------------------------------------------------------------------------


def summary(board: Leaderboard) -> str:
    """One sentence of what the numbers are."""
    seeds = sorted({seed for row in board.rows for seed in row.seeds})
    return (
        f"avg@{board.samples} in % on {board.problems} held-out problems after the last step, "
        f"{len(seeds)} seed{'s' * (len(seeds) > 1)} ({', '.join(map(str, seeds))}), 95 % intervals over seeds and "
        f"problems; differences to {board.baseline} with p-values and intervals that hold for all rows and decodings "
        f"together"
    )


def headlines(board: Leaderboard) -> list[str]:
    """What may be claimed, and of how many rows nothing may be: a sentence for each decoding."""
    return [_headline(board, decoding) for decoding in board.decodings if len(board.rows) > 1]


def _headline(board: Leaderboard, decoding: Decoding) -> str:
    said: dict[str, list[Row]] = {}
    for row in board.rows:
        if row.objective != board.baseline:
            said.setdefault(row.results[decoding].verdict, []).append(row)
    found = [_group(verdict, said, board, decoding) for verdict in sorted(said, key=_weight)]
    return f"At {decoding}, {'; '.join(found)}."


def _group(verdict: str, said: Mapping[str, Sequence[Row]], board: Leaderboard, decoding: Decoding) -> str:
    """`worse than grpo: lopti (-6.4)`; rows of which nothing is claimed are counted where they are many."""
    rows, is_claim = said[verdict], _weight(verdict) < CLAIMS
    names = [row.objective + _by_how_much(row.results[decoding].difference) * is_claim for row in rows]
    if is_claim:
        first, _, rest = verdict.partition(",")
        words = f"{first} than" if first in ("better", "worse") else f"{first} points as"
        return f"{words} {board.baseline}{',' * bool(rest)}{rest}: {', '.join(names)}"
    everyone = len(rows) == len(board.rows) - 1
    count = f"all {len(rows)}" if everyone and len(rows) > 1 else f"the other {len(rows)}"
    words = verdict.replace(":", ",") + f" from {board.baseline}" * (verdict == "not distinguishable")
    return f"{words}: {', '.join(names) if len(rows) < MANY else count}"


def _by_how_much(difference: Difference | None) -> str:
    return f" ({signed(difference)})" if difference else ""


MANY = 4
VERDICTS = ("better", "worse", "the same within", "not distinguishable", "unstable", "too few")
CLAIMS = 3


def _weight(verdict: str) -> int:
    return next((place for place, word in enumerate(VERDICTS) if verdict.startswith(word)), len(VERDICTS))
