"""What each recipe of a grid did in training, as a Markdown table, the best last steps first.

python benchmarks/zoo/summary.py runs/zoo > benchmarks/zoo/results/training.md
"""

import sys
from collections import defaultdict
from pathlib import Path

from rlzoo.experiment.identity import read_objective
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines

FIRST, LAST = 3, 5
"""Steps whose mean is shown as the beginning and as the end."""


def mean(lines: list[dict[str, float]], key: str) -> float:
    """Over steps."""
    return sum(line[key] for line in lines) / len(lines)


def row(runs: list[list[dict[str, float]]]) -> tuple[float, str]:
    """What a recipe's runs came to, and the cells that say it."""
    before = sum(mean(run[:FIRST], "accuracy") for run in runs) / len(runs)
    after = [mean(run[-LAST:], "accuracy") for run in runs]
    entropy = sum(run[-1]["entropy"] for run in runs) / len(runs)
    steepest = max(line["gradient_norm"] for run in runs for line in run)
    skipped = sum(line["updates_skipped"] for run in runs for line in run)
    end = sum(after) / len(after)
    shown = [f"{100 * before:.1f}", f"{100 * end:.1f}", " ".join(f"{100 * value:.1f}" for value in after)]
    return end, " | ".join([*shown, f"{entropy:.3f}", f"{steepest:.1f}", f"{skipped:.0f}"])


def main(grid: Path) -> None:
    """Prints the table."""
    runs = defaultdict(list)
    for path in sorted(grid.glob("*/metrics.jsonl")):
        runs[read_objective(path.parent).expression].append(read_json_lines(RunFolder(path.parent).metrics))
    print("| recipe | accuracy before (%) | after (%) | by seed | entropy after | largest gradient norm | skipped |")
    print("|---|---|---|---|---|---|---|")
    for expression, (_, cells) in sorted(
        ((name, row(found)) for name, found in runs.items()), key=lambda item: -item[1][0]
    ):
        print(f"| `{expression}` | {cells} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
