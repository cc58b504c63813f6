"""The leaderboard as CSV, and as the rows that Python gets."""

import csv
import io
from collections.abc import Sequence

from rlzoo.comparing.aggregates import THRESHOLDS
from rlzoo.comparing.leaderboard import Leaderboard, Row
from rlzoo.comparing.problem_sets import SetDecoding
from rlzoo.comparing.verdicts import Measured
from rlzoo.config.decoding import Decoding
from rlzoo.report.words import printable


def comma_separated(board: Leaderboard) -> str:
    """One line for each row and decoding, with a column for each seed; shares and accuracies from 0 to 1."""
    text, rows = io.StringIO(), records(board)
    names = dict.fromkeys(name for row in rows for name in row)  # problem sets have different numbers of samples
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def records(board: Leaderboard) -> list[dict[str, object]]:
    """The figures of each row and decoding."""
    seeds = sorted({seed for row in board.rows for seed in row.seeds})
    return [_record(row, decoding, seeds) for decoding in board.decodings for row in board.rows]


def _record(row: Row, decoding: Decoding, seeds: Sequence[int]) -> dict[str, object]:
    result = row.results[decoding]
    return {
        "objective": printable(row.objective),
        "without": printable(row.without),
        "problem_set": decoding.problem_set if isinstance(decoding, SetDecoding) else "held out",
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "seeds": " ".join(map(str, row.seeds)),
        "accuracy": result.accuracy.mean,
        **_measured("", result.average),
        "p_improvement": result.p_improvement,
        **{f"pass@{k}": value for k, value in result.pass_at.items()},
        **_measured("pass_", result.passed),
        "maj": result.majority.estimate.mean,
        **_measured("maj_", result.majority),
        **_by_seed("accuracy", result.average, row, seeds),
        **_by_seed("pass", result.passed, row, seeds),
        **_by_seed("maj", result.majority, row, seeds),
        "interquartile_mean": result.interquartile_mean,
        **{f"above_{threshold:g}": share for threshold, share in zip(THRESHOLDS, result.profile, strict=True)},
        **{f"p_rank_{place}": share for place, share in enumerate(result.ranks, 1)},
        "held_out_area": row.area,
        "steps_to_baseline": " ".join("" if step is None else str(step) for step in row.steps_to_baseline),
        "entropy": row.entropy,
        "entropy_drift": row.drift,
        "length": result.length,
        "truncated": result.truncated,
        "gradient_norm": row.gradient_norm,
        "seconds_per_step": row.seconds_per_step,
        "tokens_per_second": row.tokens_per_second,
        "command": printable(row.command),
    }


def _by_seed(name: str, measured: Measured, row: Row, seeds: Sequence[int]) -> dict[str, object]:
    """Nothing where a row does not have a seed that others have."""
    values = dict(zip(row.seeds, measured.by_seed, strict=True))
    return {f"{name}_seed_{seed}": values.get(seed) for seed in seeds}


def _measured(prefix: str, it: Measured) -> dict[str, object]:
    difference = it.difference
    return {
        f"{prefix or 'accuracy_'}low": it.estimate.low,
        f"{prefix or 'accuracy_'}high": it.estimate.high,
        f"{prefix}difference": difference and difference.mean,
        f"{prefix}difference_low": difference and difference.low,
        f"{prefix}difference_high": difference and difference.high,
        f"{prefix}difference_alone_low": difference and difference.alone.low,
        f"{prefix}difference_alone_high": difference and difference.alone.high,
        f"{prefix}p_page": difference and difference.p_value,
        f"{prefix}detectable": difference and difference.detectable,
        f"{prefix}seeds_needed": difference and difference.seeds_needed,
        f"{prefix}verdict": it.verdict,
    }
