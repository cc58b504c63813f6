"""The mean reward of each step as a picture, from what TRL or verl wrote down.

    python examples/learning_curve.py runs/trl/trainer_state.json    # of trl_sums.py
    python examples/learning_curve.py runs/verl/log.jsonl            # of verl_sums.py; pip install seaborn

Writes curve.png beside it.
"""

import json
import sys
from pathlib import Path

import seaborn
from matplotlib.figure import Figure


def rewards(log: Path) -> dict[int, float]:
    """Step -> mean reward."""
    text = log.read_text(encoding="utf-8")
    if log.suffix == ".jsonl":
        lines = [json.loads(line) for line in text.splitlines()]
        return {line["step"]: line["data"][name] for line in lines if (name := "critic/rewards/mean") in line["data"]}
    return {entry["step"]: entry["reward"] for entry in json.loads(text)["log_history"] if "reward" in entry}


def main(log: Path) -> None:
    """Draws them."""
    found = rewards(log)
    seaborn.set_theme(style="whitegrid")
    figure = Figure(figsize=(6, 4))  # no window, so that none need be there
    axis = seaborn.lineplot(x=[*found], y=[*found.values()], ax=figure.subplots())
    axis.set(xlabel="step", ylabel="mean reward of the rollouts", ylim=(0, None))
    figure.savefig(log.with_name("curve.png"), dpi=150, bbox_inches="tight")
    print(f"{log.with_name('curve.png')}: {len(found)} steps")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
