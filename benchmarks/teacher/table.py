"""Puts the runs of this measurement beside each other, and keeps their metrics.

python benchmarks/teacher/table.py RUNS

RUNS has `opd-SEED` and `grpo-SEED` as `rlzoo train` left them; of these, seeds that both have finished. Writes `raw/`
and `results/` beside this file.
"""

import shutil
import sys
from pathlib import Path

import numpy as np

from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.evaluate import read_evaluations
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines
from rlzoo.statistics.paired import paired_by_seed

HERE = Path(__file__).parent
OBJECTIVES, STEPS = ("opd", "grpo"), (10, 20, 30, 40, 50, 60)


def held_out(run: RunFolder) -> dict[int, float]:
    """Step -> mean accuracy of eight responses to each held-out problem, in percent."""
    found = read_evaluations(run, Decoding(1.0, 1.0))
    return {step: 100 * float(evaluation.column("correct").mean()) for step, evaluation in found.items()}


def rewards(run: RunFolder) -> list[float]:
    """The mean reward of the ten steps that end at each of `STEPS`."""
    lines = read_json_lines(run.metrics)
    return [float(np.mean([line["reward"] for line in lines[step - 10 : step]])) for step in STEPS]


def main(runs: Path) -> None:
    """Writes everything."""
    lines = ["| objective | seed | before | after | reward of steps 1-10 | 11-20 | 21-30 | 31-40 | 41-50 | 51-60 |"]
    lines.append("|---" * 10 + "|")
    after: dict[str, list[float]] = {objective: [] for objective in OBJECTIVES}
    finished = [{path.parent.name[-1] for path in runs.glob(f"{it}-?/finished.json")} for it in OBJECTIVES]
    (HERE / "raw").mkdir(exist_ok=True)
    (HERE / "results").mkdir(exist_ok=True)
    for objective in OBJECTIVES:
        for seed in sorted(set.intersection(*finished)):
            run = RunFolder(runs / f"{objective}-{seed}")
            scores = held_out(run)
            after[objective].append(scores[STEPS[-1]])
            shutil.copyfile(run.metrics, HERE / "raw" / f"{objective}-{seed}.jsonl")
            numbers = [f"{scores[0]:.1f}", f"{scores[STEPS[-1]]:.1f}", *(f"{reward:.3f}" for reward in rewards(run))]
            lines.append(f"| {objective} | {seed} | {' | '.join(numbers)} |")
    found = paired_by_seed(np.array(after["opd"]), np.array(after["grpo"]))
    lines.append(
        f"\nopd less grpo after 60 steps, paired by seed: {found.mean:+.1f} [{found.low:.1f}, {found.high:.1f}], "
        f"p = {found.p_value:.2f}"
    )
    (HERE / "results" / "table.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
