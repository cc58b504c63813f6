"""How figures are written, wherever the leaderboard is shown."""

from rlzoo.comparing.leaderboard import Leaderboard
from rlzoo.comparing.verdicts import Difference
from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.intervals import Estimate


def percent(estimate: Estimate) -> str:
    """`75.2 [73.0, 77.4]`."""
    return f"{100 * estimate.mean:.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def points(difference: Estimate | None) -> str:
    """`+3.1 [-1.0, 7.2]`."""
    if difference is None:
        return "-"
    return f"{100 * difference.mean:+.1f} [{100 * difference.low:.1f}, {100 * difference.high:.1f}]"


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


def summary(board: Leaderboard) -> str:
    """One sentence of what the numbers are."""
    seeds = sorted({seed for row in board.rows for seed in row.seeds})
    return (
        f"avg@{board.samples} in % on {board.problems} held-out problems after the last step, "
        f"{len(seeds)} seed{'s' * (len(seeds) > 1)} ({', '.join(map(str, seeds))}), 95 % intervals over seeds and "
        f"problems; differences to {board.baseline} with p-values and intervals that hold for all rows and decodings "
        f"together"
    )


def headline(board: Leaderboard) -> str:
    """What may be claimed, at every decoding."""
    return " ".join(filter(None, (_headline(board, decoding) for decoding in board.decodings)))


def _headline(board: Leaderboard, decoding: Decoding) -> str:
    said: dict[str, list[str]] = {}
    for row in board.rows:
        if row.objective != board.baseline:
            said.setdefault(row.results[decoding].verdict, []).append(row.objective)
    claims = [f"{words}: {', '.join(said[words])}" for words in sorted(said, key=_weight) if _weight(words) < 5]
    return f"At {decoding}, beside {board.baseline}, {'; '.join(claims)}." if claims else ""


def _weight(verdict: str) -> int:
    order = ("better", "worse", "the same", "not distinguishable", "unstable")
    return next((place for place, word in enumerate(order) if verdict.startswith(word)), len(order))
