"""The picture of the README: the first decoding of the committed leaderboard, without the panels below it.

python docs/draw_leaderboard.py docs/pictures/leaderboard.png
"""

import sys
from pathlib import Path

import pandas

from rlzoo.report.leaderboard_figures import draw_leaderboard
from rlzoo.report.leaderboard_statistics import PICTURED

RESULTS = Path(__file__).parents[1] / "benchmarks" / "leaderboard" / "results"


def main(output: Path) -> None:
    """Draws accuracies, differences and verdicts at temperature 1."""
    table = pandas.read_csv(RESULTS / "leaderboard.csv").query("temperature == 1 and top_p == 1")
    answers = pandas.read_parquet(RESULTS / "answers.parquet", filters=[("method", "==", "untrained")])
    untrained = answers[answers.decoding == "T=1, top-p=1"].groupby("seed").value.mean().tolist()
    shown = table.drop(columns=[it.name for it in PICTURED], errors="ignore")
    draw_leaderboard(output, "Sums, 25 steps", {"T=1": shown}, {"T=1": untrained})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
