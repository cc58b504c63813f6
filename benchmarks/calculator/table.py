"""What the runs of this measurement have learnt: answers, calls, and how many calls ask for what they should.

python benchmarks/calculator/table.py RUNS

RUNS has run folders as `rlzoo train configs/calculator.yaml` left them. Writes `raw/` and `results/` beside this file.
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.evaluate import read_evaluations, right_calls
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.tasks.calculator import Calculator
from rlzoo.tasks.tools import calls_in

HERE = Path(__file__).parent
HEADS = ("seed", "step", "right", "of products", "of sums", "calls for a product", "for a sum", "right calls")


def figures(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Percentages of right responses (all, products, sums), calls per response (products, sums), % of right calls."""
    calls = [calls_in(record["transcript"]) for record in records]
    correct = np.array([record["correct"] for record in records])
    counts = np.array([len(written) for written in calls])
    is_product = np.array(["*" in record["prompt"] for record in records])
    return [
        *(100 * correct[of].mean() for of in (slice(None), is_product, ~is_product)),
        *(counts[of].mean() for of in (is_product, ~is_product)),
        100 * right_calls(records, Calculator()),
    ]


def main(runs: Path) -> None:
    """Writes everything."""
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for folder in ("raw", "results"):
        (HERE / folder).mkdir(exist_ok=True)
    for path in sorted(it.parent for it in runs.glob("*/finished.json")):
        run = RunFolder(path)
        seed = path.name.rpartition("-")[2]
        shutil.copyfile(run.metrics, HERE / "raw" / f"{seed}.jsonl")
        for step, evaluation in read_evaluations(run, Decoding(1.0, 1.0)).items():
            *shares, product, total, right = figures(evaluation.records)
            numbers = [*(f"{it:.1f}" for it in shares), f"{product:.2f}", f"{total:.2f}", f"{right:.1f}"]
            lines.append(f"| {seed} | {step} | {' | '.join(numbers)} |")
    (HERE / "results" / "table.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
