"""Counts interim analyses, for the sequential-testing correction: looking again after adding seeds errs more often.

The analyses of a row are the different sets of seeds with which a leaderboard showed it. They are counted in the grid's
folder, and what is shown at the k-th is corrected for k (benchmarks/coverage).
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rlzoo.comparing.finished_runs import FinishedRun
from rlzoo.errors import UserError
from rlzoo.files import read_json, write_json

ANALYSES = "looks.json"


def count_analysis(folder: Path, runs: Iterable[FinishedRun]) -> int:
    """Notes in a grid's folder with which seeds its rows are shown, and returns the number of analyses so far.

    A folder that cannot be written is analysed all the same. Raises UserError if the count is damaged.
    """
    seeds: dict[str, list[int]] = {}
    for run in runs:
        seeds.setdefault(json.dumps(run.identity), []).append(run.config.seed)
    seen = _read(folder / ANALYSES)
    for row, of_row in seeds.items():
        if sorted(of_row) not in seen.setdefault(row, []):
            seen[row].append(sorted(of_row))
    with suppress(OSError):
        write_json(folder / ANALYSES, seen)
    return max((len(seen[row]) for row in seeds), default=1)


def _read(path: Path) -> dict[str, list[list[int]]]:
    if not path.exists():
        return {}
    try:
        seen = read_json(path.read_text(encoding="utf-8"))
        return {str(row): [sorted(map(int, seeds)) for seeds in sets] for row, sets in seen.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):  # int(inf) is the last
        raise UserError(f"{path} is damaged; remove it, and looks are counted afresh") from None
