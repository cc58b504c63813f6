"""The statistics of the leaderboard: each is declared here once, and terminal, Markdown, CSV, page and picture show it.

A further one is a further line in `BY_DECODING` or `BY_ROW`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rlzoo.comparing.leaderboard import Leaderboard, LeaderboardRow
from rlzoo.comparing.results import ACCURACY, AREA, REWARD, Place
from rlzoo.comparing.token_curves import TokenCurve
from rlzoo.report.leaderboard_sentences import has_discoveries
from rlzoo.statistics.intervals import Estimate
from rlzoo.statistics.verdicts import Measured

ByPlace: TypeAlias = Mapping[Any, float | None]
Value: TypeAlias = float | Estimate | Measured | ByPlace | None


def in_percent(share: float) -> str:
    """`75.2`."""
    return f"{100 * share:.1f}"


def as_p_value(value: float) -> str:
    """Three digits that count, so that 0.0502 does not look like 0.05."""
    return "<0.001" if value < 0.001 else f"{value:.3g}"


@dataclass(frozen=True)
class Statistic:
    """A figure of every row. With several places, as seeds are, it has a column for each."""

    name: str
    """Of its column in the CSV; of several, how they begin."""
    heading: str
    """`{k}` is the number of samples."""
    value: Callable[[Leaderboard, LeaderboardRow, Place], Value]
    """Shares from 0 to 1; None where a row has none."""
    write: Callable[[float], str] = "{:.2f}".format
    pictured: str = ""
    """What the picture calls it, which otherwise leaves it out."""


def _measured(name: str) -> Callable[[Leaderboard, LeaderboardRow, Place], Measured | None]:
    return lambda board, row, at: row.results[at].measured.get(name)


def _reward(board: Leaderboard, row: LeaderboardRow, at: Place) -> Measured | None:
    by_share = row.results[at].measured.get(REWARD)
    return board.rewards.measured(by_share) if board.rewards and by_share else None


def _answered(name: str) -> Callable[[Leaderboard, LeaderboardRow, Place], float | None]:
    return lambda board, row, at: getattr(row.results[at], name)


def _trained(name: str) -> Callable[[Leaderboard, LeaderboardRow, Place], float | None]:
    """Of how a row was trained, where that is known."""
    return lambda board, row, at: getattr(row.training, name, None)


def _p_value(board: Leaderboard, row: LeaderboardRow, decoding: Place) -> float | None:
    difference = row.results[decoding].difference
    return difference.p_value if difference else None


def _false_discoveries(board: Leaderboard, row: LeaderboardRow, decoding: Place) -> float | None:
    difference = row.results[decoding].difference
    return difference.false_discovery_rate if difference and has_discoveries(board) else None


def _seeds_needed(board: Leaderboard, row: LeaderboardRow, decoding: Place) -> ByPlace | None:
    difference = row.results[decoding].difference
    ends = zip(("at least", "at most"), difference.seeds_range, strict=True) if difference else ()
    return {end: seeds or None for end, seeds in ends} or None


def _when_spent(
    value: Callable[[TokenCurve], Estimate | None],
) -> Callable[[Leaderboard, LeaderboardRow, Place], Value]:
    """Of the accuracy at equal tokens or steps."""

    def of_row(board: Leaderboard, row: LeaderboardRow, at: Place) -> Value:
        curve = board.token_curves.rows.get(row.identity) if board.token_curves else None
        return value(curve) if curve else None

    return of_row


ACCURACIES = Statistic("accuracy", "avg@{k}", _measured(ACCURACY), in_percent)
"""What rows are ranked by, in a table of its own."""
REWARDS = Statistic("reward", "mean reward", _reward, "{:.3f}".format, pictured="mean reward")
IN_WORDS = {"pass": "any sample right: pass@k (%)", "maj": "majority right: maj@k (%)"}
"""Measures, and what the picture calls them."""
BY_DECODING: Mapping[str, Sequence[Statistic]] = {
    "mean reward": (REWARDS,),
    "pass@k, maj@k, p-values, seeds needed, lengths": (
        Statistic("p_page", "p (page)", _p_value, as_p_value),
        Statistic("false_discovery_rate", "false discovery rate", _false_discoveries, as_p_value),
        Statistic("seeds_needed_", "seeds to find it, ", _seeds_needed, "{:.0f}".format),
        *(
            Statistic(name, name + "@{k}", _measured(name), in_percent, pictured=words)
            for name, words in IN_WORDS.items()
        ),
        Statistic("length", "length", _answered("length"), "{:.1f}".format, pictured="length (tokens)"),
        Statistic("truncated", "truncated (%)", _answered("truncated"), in_percent, pictured="cut by the limit (%)"),
    ),
    "area under the curve": (
        Statistic(
            "held_out_area", "area under avg@{k}", _measured(AREA), in_percent, pictured="mean accuracy on the way (%)"
        ),
    ),
    "pass@k by k": (Statistic("pass@", "pass@", lambda board, row, at: row.results[at].pass_at, in_percent),),
}
BY_TOKENS = "Accuracy by tokens"
BY_ROW: Mapping[str, Sequence[Statistic]] = {
    BY_TOKENS: (
        Statistic("at_equal_tokens", "at equal tokens (%)", _when_spent(lambda row: row.at_equal_tokens), in_percent),
        Statistic("at_equal_steps", "at equal steps (%)", _when_spent(lambda row: row.at_equal_steps), in_percent),
    ),
    "Training": (
        Statistic(
            "entropy", "entropy (nats)", _trained("entropy"), "{:.3f}".format, pictured="entropy at the end (nats)"
        ),
        Statistic("entropy_drift", "entropy drift", _trained("drift"), "{:.3f}".format),
        Statistic("gradient_norm", "gradient norm", _trained("gradient_norm"), "{:.3g}".format),
        Statistic("seconds_per_step", "seconds a step", _trained("seconds_per_step")),
        Statistic("tokens_per_second", "tokens/s", _trained("tokens_per_second"), "{:.0f}".format),
    ),
}


def values(statistic: Statistic, board: Leaderboard, decoding: Place) -> list[Value]:
    """A statistic of each row."""
    return [statistic.value(board, row, decoding) for row in board.rows]


PICTURED = [it for table in (*BY_DECODING.values(), *BY_ROW.values()) for it in table if it.pictured]
"""The statistics of the picture."""
