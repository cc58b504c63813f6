"""The leaderboard as CSV, and as the rows that Python gets."""

from collections.abc import Mapping

from rlzoo.comparing.leaderboard import BoardRow, Leaderboard
from rlzoo.comparing.problem_sets import Place, SetDecoding, TablePlace
from rlzoo.errors import printable
from rlzoo.report.board_statistics import ACCURACIES, BY_DECODING, BY_ROW, Value
from rlzoo.report.csv_text import csv_text
from rlzoo.report.verdict_words import verdict_words
from rlzoo.statistics.intervals import Estimate
from rlzoo.statistics.verdicts import Measured


def comma_separated(board: Leaderboard) -> str:
    """One line for each row and decoding, with a column for each seed; shares and accuracies from 0 to 1."""
    rows = records(board)
    return csv_text(rows[0], (row.values() for row in rows))


def records(board: Leaderboard) -> list[dict[str, object]]:
    """The figures of each row and decoding, all with the same names; None where a row has none.

    Where only results are known, figures that no row has are left out.
    """
    rows = [_record(board, row, decoding) for decoding in board.decodings for row in board.rows]
    names = dict.fromkeys(name for row in rows for name, value in row.items() if board.is_trained or value is not None)
    return [{name: row.get(name) for name in names} for row in rows]


def _record(board: Leaderboard, row: BoardRow, decoding: Place) -> dict[str, object]:
    tables = [[ACCURACIES], *BY_DECODING.values(), *BY_ROW.values()]
    figures: dict[str, object] = {}
    for statistic in (statistic for table in tables for statistic in table):
        figures |= _figures(statistic.name, statistic.value(board, row, decoding), row)
    return {
        "objective": printable(str(row.name)),
        "without": printable(row.name.without),
        **_place(decoding),
        "seeds": " ".join(map(str, row.seeds)),
        **figures,
        **({"command": printable(row.training.command)} if row.training else {}),
    }


def _place(place: Place) -> dict[str, object]:
    if isinstance(place, TablePlace):
        return {"problem_set": printable(place.problem_set), "decoding": printable(place.decoding)}
    problem_set = place.problem_set if isinstance(place, SetDecoding) else "held out"
    return {"problem_set": problem_set, "temperature": place.temperature, "top_p": place.top_p}


def _figures(name: str, value: Value, row: BoardRow) -> dict[str, object]:
    if isinstance(value, Measured):
        return {**_figures(name, value.estimate, row), **_difference(name, value), **_by_seed(name, value, row)}
    if isinstance(value, Estimate):
        return {name: value.mean, f"{name}_low": value.low, f"{name}_high": value.high}
    if isinstance(value, Mapping):
        return {f"{name}{place}".replace(" ", "_"): number for place, number in value.items()}
    return {} if value is None and name.endswith("_") else {name: value}


def _difference(name: str, measured: Measured) -> dict[str, object]:
    prefix, difference = "" if name == ACCURACIES.name else f"{name}_", measured.difference
    return {
        f"{prefix}difference": difference and difference.mean,
        f"{prefix}difference_low": difference and difference.low,
        f"{prefix}difference_high": difference and difference.high,
        f"{prefix}difference_alone_low": difference and difference.alone.low,
        f"{prefix}difference_alone_high": difference and difference.alone.high,
        f"{prefix}p_page": difference and difference.p_value,
        f"{prefix}detectable": difference and difference.detectable,
        f"{prefix}seeds_needed": difference and difference.seeds_needed,
        f"{prefix}verdict": verdict_words(measured.verdict),
    }


def _by_seed(name: str, measured: Measured, row: BoardRow) -> dict[str, object]:
    return {f"{name}_seed_{seed}": mean for seed, mean in zip(row.seeds, measured.by_seed, strict=True)}
