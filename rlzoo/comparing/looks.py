"""How often somebody looked at a grid with other seeds: whoever looks again after adding seeds errs more often.

The looks of a row are the different sets of seeds with which a page showed it. They are counted in the grid's folder,
and what is shown at the k-th look is corrected for k (benchmarks/coverage).
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rlzoo.comparing.finished_runs import FinishedRun
from rlzoo.errors import UserError
from rlzoo.files import read_json, write_json

LOOKS = "looks.json"


def count_look(folder: Path, runs: Iterable[FinishedRun]) -> int:
    """Notes in a grid's folder with which seeds its rows are looked at, and returns how many looks there were.

    A folder that cannot be written is looked at all the same. Raises UserError if the count is damaged.
    """
    seeds: dict[str, list[int]] = {}
    for run in runs:
        seeds.setdefault(json.dumps(run.identity), []).append(run.config.seed)
    seen = _read(folder / LOOKS)
    for row, own in seeds.items():
        if sorted(own) not in seen.setdefault(row, []):
            seen[row].append(sorted(own))
    with suppress(OSError):
        write_json(folder / LOOKS, seen)
    return max((len(seen[row]) for row in seeds), default=1)


def _read(path: Path) -> dict[str, list[list[int]]]:
    if not path.exists():
        return {}
    try:
        seen = read_json(path.read_text(encoding="utf-8"))
        return {str(row): [sorted(map(int, seeds)) for seeds in sets] for row, sets in seen.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):  # int(inf) is the last
        raise UserError(f"{path} is damaged; remove it, and looks are counted afresh") from None
