"""The table of what `in_trl` and `in_verl` measured: `python -m benchmarks.normalisation.table FOLDER`."""

import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.normalisation.batch import CUTS

RANKS = (1, 2)
RESULT = Path(__file__).parent / "results" / "table.md"


def row(engine: str, loss: str, found: dict[tuple[int, int], Any]) -> str:
    """Distances to the gradient of the whole batch at once, relative to it."""
    whole = found[1, 1]
    cells = []
    for ranks in RANKS:
        distances = [float((found[cut, ranks] - whole).norm() / whole.norm()) for cut in CUTS]
        cells.append(", ".join("0" if distance < 1e-5 else f"**{distance:.0%}**" for distance in distances))
    return f"| {engine} | `{loss}` | {' | '.join(cells)} |"


def main(folder: Path) -> None:
    """Writes it; 0 stands for less than 1e-5."""
    measured: dict[tuple[str, str], dict[tuple[int, int], Any]] = {}
    for path in sorted(folder.glob("*.pt")):
        each = torch.load(path)
        measured.setdefault((each["engine"], each["loss"]), {})[each["cut"], each["ranks"]] = each["gradient"]
    lacking = [key for key, found in measured.items() if len(found) < len(RANKS) * len(CUTS)]
    if lacking or not measured:
        sys.exit(f"{folder} lacks some of {lacking or 'everything'}: run in_trl and in_verl on one rank and on two")
    heads = [f"{'1 rank' if ranks == 1 else '2 ranks'}: {', '.join(map(str, CUTS))}" for ranks in RANKS]
    lines = [f"| inside | loss | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    peers_first = sorted(measured, key=lambda key: (key[0], ":" in key[1]))
    lines += [row(*key, measured[key]) for key in peers_first]
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(RESULT.read_text("utf-8"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
