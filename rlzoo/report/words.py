"""How figures are written, wherever the leaderboard is shown."""

from rlzoo.comparing.leaderboard import Leaderboard
from rlzoo.evaluation.statistics import Difference, Estimate


def percent(estimate: Estimate) -> str:
    """`75.2 ± 2.2`."""
    return f"{100 * estimate.mean:.1f} ± {100 * estimate.half_width:.1f}"


def points(difference: Difference | None) -> str:
    """`+3.1 [-1.0, 7.2]`."""
    if difference is None:
        return "-"
    return f"{100 * difference.mean:+.1f} [{100 * difference.low:.1f}, {100 * difference.high:.1f}]"


def probability(value: float | None) -> str:
    """Two digits; what rounds to certainty says that it is not quite."""
    if value is None:
        return "-"
    return "<0.01" if value < 0.005 else ">0.99" if value > 0.995 else f"{value:.2f}"


def p_value(value: float | None) -> str:
    """Three digits that count, so that 0.0502 does not look like 0.05."""
    return "-" if value is None else "<0.001" if value < 0.001 else f"{value:.3g}"


def summary(board: Leaderboard) -> str:
    """One sentence of what the numbers are."""
    seeds = sorted({seed for row in board.rows for seed in row.seeds})
    return (
        f"avg@{board.samples} in % on {board.problems} held-out problems after the last step, "
        f"{len(seeds)} seed{'s' * (len(seeds) > 1)} ({', '.join(map(str, seeds))}), 95 % intervals over seeds and "
        f"problems; differences to {board.baseline}, paired; p-values by Holm"
    )


def headline(board: Leaderboard) -> str:
    """What may be claimed at the first decoding."""
    decoding = board.decodings[0]
    rows = {
        said: [row.objective for row in board.rows if row.results[decoding].verdict == said]
        for said in ("better", "worse", "not distinguishable")
    }
    names = {"better": "better than", "worse": "worse than", "not distinguishable": "not distinguishable from"}
    claims = [f"{names[said]} {board.baseline}: {', '.join(found)}" for said, found in rows.items() if found]
    return f"At {decoding}, {'; '.join(claims)}." if claims else ""
