"""Recomputes every effect and interval of claims.csv from the raw results alone; fails at the first that differs."""

import csv
import json
import math
import statistics
from pathlib import Path

from scipy import stats

BENCHMARKS = Path(__file__).parents[1]


def scores(row: dict[str, str], which: str) -> dict[int, float]:
    """Seed -> score of an arm: of the lines of cells.jsonl, or of a leaderboard's columns at temperature 1."""
    path, arm = BENCHMARKS / row["raw"], row[which]
    if path.suffix == ".csv":
        lines = [line for line in csv.DictReader(path.open(encoding="utf-8")) if line["objective"] == arm]
        line, prefix = next(line for line in lines if line["temperature"] == "1.0"), f"{row['score']}_seed_"
        return {int(name[len(prefix) :]): float(line[name]) for name in line if name.startswith(prefix) and line[name]}
    cells = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    wanted = (row["experiment"], arm, row[f"{which}_key"])
    cells = [cell for cell in cells if (cell["experiment"], cell["arm"], cell["objective"]) == wanted]
    return {cell["seed"]: cell["scores"][row["score"]] for cell in cells if int(row["first_seed"]) <= cell["seed"]}


rows = csv.DictReader((BENCHMARKS / "claims.csv").open(encoding="utf-8"))
for row in (row for row in rows if row["effect"]):
    first, second = scores(row, "arm"), scores(row, "twin")
    differences = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    assert len(differences) == int(row["seeds"]), row
    effect, spread = statistics.mean(differences), statistics.stdev(differences) / math.sqrt(len(differences))
    reach = stats.t.isf(float(row["error"]) / 2, len(differences) - 1) * spread
    for name, value in {"effect": effect, "low": effect - reach, "high": effect + reach}.items():
        assert math.isclose(value, float(row[name]), rel_tol=1e-9, abs_tol=1e-12), (row, name, value)
