"""The headline claims of the papers, asked of committed runs: `benchmarks/claims/claims.yaml` becomes a table.

python -m rlzoo.lab.claims writes `benchmarks/claims.csv`, and beside the declared claims a page, a picture, and the
scores of experiments whose scores are tested together. `benchmarks/claims/recompute.py` checks it without this package.
"""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
import yaml
from matplotlib.figure import Figure
from scipy import stats

from rlzoo.files import write_json, write_text
from rlzoo.lab.suite.cells import CellFile, chosen_seeds
from rlzoo.lab.suite.experiment import BASE, START
from rlzoo.lab.suite.verdicts import ControlFailure, ExperimentResults, compare, judge, read_results
from rlzoo.report.drawing import save_figure
from rlzoo.statistics.family import Family

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RAW = {
    "confirm": "claims/results/cells.jsonl",
    "late": "late/results/cells.jsonl",
    "knights": "leaderboard_knights/results/leaderboard.csv",
}
LOOKS = {"confirm": 1, "late": 2, "knights": 1}
"""How often the results of each are looked at while seeds are added."""
FRESH = [str(seed) for seed in range(3000, 3020)]
"""The seeds of `confirm`, which no question had seen."""
ERROR = 0.05
"""Of all intervals of the table together."""
FEWEST = 5
"""Seeds below which a claim is open: two or three runs that agree give a narrow interval by luck."""


class Verdict(Enum):
    """What the runs say of a claim."""

    REPRODUCED = "reproduced"
    CONTRADICTED = "contradicted"
    NOT_REPRODUCED = "not reproduced"
    OPEN = "open"
    CANNOT = "cannot be asked here"


@dataclass(frozen=True)
class Row:
    """A line of `claims.csv`."""

    method: str
    claim: str
    words: str
    paper: str
    asks: str = ""
    smallest: float | str = ""
    fixed: str = ""
    raw: str = ""
    experiment: str = ""
    arm: str = ""
    twin: str = ""
    arm_key: str = ""
    twin_key: str = ""
    score: str = ""
    first_seed: int | str = ""
    seeds: int | str = ""
    arm_mean: float | str = ""
    twin_mean: float | str = ""
    start_mean: float | str = ""
    effect: float | str = ""
    low: float | str = ""
    high: float | str = ""
    error: float | str = ""
    control: str = ""
    verdict: str = ""
    left: str = ""


def interval(differences: np.ndarray, error: float) -> tuple[float, float, float]:
    """Mean and both ends of its interval over seeds (Student's t), which misses the true mean at the rate `error`."""
    count, mean = len(differences), float(differences.mean())
    if mean and not np.ptp(differences) and 2.0 ** (1 - count) > error:
        return mean, -math.inf, math.inf  # differences that are equal by chance have no spread
    reach = float(stats.t.isf(error / 2, count - 1)) * float(differences.std(ddof=1)) / math.sqrt(count)
    return mean, mean - reach, mean + reach


def verdict_of(asks: str, low: float, high: float, smallest: float) -> Verdict:
    """By where the interval lies beside the smallest difference that counts, in both directions."""
    if asks in ("lower", "not higher"):
        return verdict_of({"lower": "higher", "not higher": "not lower"}[asks], -high, -low, smallest)
    is_inside = -smallest < low and high < smallest
    if asks == "same":
        if is_inside:
            return Verdict.REPRODUCED
        return Verdict.CONTRADICTED if low > smallest or high < -smallest else Verdict.OPEN
    if high < -smallest:
        return Verdict.CONTRADICTED
    if low > (smallest if asks == "higher" else -smallest):
        return Verdict.REPRODUCED
    return Verdict.NOT_REPRODUCED if asks == "higher" and is_inside else Verdict.OPEN


def decided(asks: str, low: float, high: float, smallest: float, seeds: int) -> Verdict:
    """The verdict of an interval over a number of seeds: below `FEWEST` every claim is open."""
    return verdict_of(asks, low, high, smallest) if seeds >= FEWEST else Verdict.OPEN


def seeds_left(differences: np.ndarray, smallest: float, error: float) -> int:
    """About how many seeds would decide, if mean and spread stay as they are; 0 for more than a thousand."""
    distance = abs(abs(float(differences.mean())) - smallest)
    spread = float(differences.std(ddof=1))
    for count in range(len(differences), 1000):
        if stats.t.isf(error / 2, count - 1) * spread / math.sqrt(count) < distance:
            return count
    return 0


# ---- raw results -----------------------------------------------------------------------------------------------------


@cache
def experiments(raw: str) -> Mapping[str, ExperimentResults]:
    """Experiment -> its cells on the seeds of its claims."""
    records, seeds = CellFile(BENCHMARKS / RAW[raw]).read(), FRESH if raw == "confirm" else ["auto"]
    return {result.experiment.name: result for result in read_results((), (), chosen_seeds(seeds), records)}


def control_of(raw: str, experiment: str, score: str, smallest: float) -> str:
    """What the controls of an experiment say of a row: "holds", or why not.

    The positive control has to be found, and the arms of the negative one have to be shown to be the same by the row's
    own score, within its smallest difference.
    """
    (found,) = judge([experiments(raw)[experiment]], LOOKS[raw])
    if ControlFailure.POSITIVE in found.controls.failed:
        return ControlFailure.POSITIVE.value
    known = compare(found.results, *found.results.experiment.negative, score).difference
    if known is None:
        return "the negative control was not trained"
    ends = f"[{known.low:.2g}, {known.high:.2g}]"
    return "holds" if known.is_within(smallest, LOOKS[raw]) else f"negative control inconclusive: {ends}"


def _of_cells(raw: str, experiment: str, score: str) -> Callable[[str], dict[int, float]]:
    results = experiments(raw).get(experiment)

    def values(arm: str) -> dict[int, float]:
        records = results.arms[arm].records if results and arm in results.arms else {}
        return {seed: record.score(score) for seed, record in records.items()}

    return values


def _of_leaderboard(raw: str, temperature: float, score: str) -> Callable[[str], dict[int, float]]:
    file = BENCHMARKS / RAW[raw]
    table = pd.read_csv(file)
    rows = table[table["temperature"] == temperature].set_index("objective")

    def values(arm: str) -> dict[int, float]:
        if arm == START:
            answers = pd.read_parquet(file.with_name("answers.parquet"), filters=[("method", "==", "untrained")])
            asked = answers[answers["decoding"].str.startswith(f"T={temperature:g},")]
            return {int(seed): float(value) for seed, value in asked.groupby("seed")["value"].mean().items()}
        found = rows.loc[arm].filter(regex=rf"^{score}_seed_\d+$") if arm in rows.index else {}
        return {int(name.rsplit("_", 1)[1]): float(value) for name, value in found.items() if not pd.isna(value)}

    return values


def _key(raw: str, experiment: str, arm: str) -> str:
    """The objective of an arm as its cells have it: another objective may have been asked for under the arm's name."""
    results = None if RAW[raw].endswith(".csv") else experiments(raw).get(experiment)
    records = results.arms[arm].records if results and arm in results.arms else {}
    return next((record.kind.objective for record in records.values()), "")


def judged(claim: Mapping[str, Any], error: float) -> Row:
    """A declared claim with what the raw results say of it; `error` is that of its interval."""
    for unasked, of in {"cannot": Verdict.CANNOT, "open": Verdict.OPEN}.items():
        if unasked in claim:
            said = {name: claim[name] for name in ("method", "claim", "words", "paper")}
            return Row(**said, verdict=of.value, left=claim[unasked].strip())
    raw, score = claim["raw"], claim["score"]
    is_board = RAW[raw].endswith(".csv")
    values = _of_leaderboard(raw, 1.0, score) if is_board else _of_cells(raw, claim["experiment"], score)
    arm, twin, start = values(claim["arm"]), values(claim["twin"]), values(START)
    shared = sorted(set(arm) & set(twin))
    if len(shared) < 2:
        return Row(**claim, verdict=Verdict.OPEN.value, left=f"fewer than {FEWEST} seeds have been trained")
    differences = np.array([arm[seed] - twin[seed] for seed in shared])
    effect, low, high = interval(differences, error)
    verdict, left = decided(claim["asks"], low, high, claim["smallest"], len(shared)), ""
    same = same_runs(claim) if not is_board else 0 if differences.any() else len(shared)
    if len(shared) < FEWEST:
        left = f"fewer than {FEWEST} seeds have been trained"
    elif same == len(shared) or (claim["asks"] in ("higher", "lower") and 2 * same > len(shared)):
        verdict, left = Verdict.CANNOT, f"arm and twin are the same run on {same} of {len(shared)} seeds"
    elif verdict is Verdict.OPEN:
        needed = seeds_left(differences, claim["smallest"], error)
        then = verdict_of(claim["asks"], effect, effect, claim["smallest"]).value
        left = (
            f"about {needed} seeds would say {then}, if effect and spread stay"
            if needed
            else "more than a thousand seeds would be needed"
        )
    means = [float(np.mean([found[seed] for seed in shared])) for found in (arm, twin)]
    return Row(
        **claim,
        arm_key=_key(raw, claim["experiment"], claim["arm"]),
        twin_key=_key(raw, claim["experiment"], claim["twin"]),
        first_seed=shared[0],
        seeds=len(shared),
        arm_mean=means[0],
        twin_mean=means[1],
        start_mean=float(np.mean([*start.values()])) if start else "",
        effect=effect,
        low=low,
        high=high,
        error=error,
        control="" if is_board else control_of(raw, claim["experiment"], score, claim["smallest"]),
        verdict=verdict.value,
        left=left,
    )


def same_runs(claim: Mapping[str, Any]) -> int:
    """The number of seeds on which arm and twin have all their scores in common."""
    arms = experiments(claim["raw"])[claim["experiment"]].arms
    arm, twin = arms[claim["arm"]].records, arms[claim["twin"]].records
    return sum(arm[seed].scores == twin[seed].scores for seed in arm.keys() & twin.keys())


def all_rows(declared: Sequence[Mapping[str, Any]]) -> list[Row]:
    """All claims; the intervals of those that are asked miss anything in at most 5 % of tables (Bonferroni)."""
    asked = sum("raw" in claim for claim in declared)
    return [judged(claim, ERROR / asked / LOOKS.get(claim.get("raw", ""), 1)) for claim in declared]


def records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What `rlzoo objectives --for` reads: claims of contrasts of two objectives that are trained alike."""
    found = []
    for row in rows:
        results = experiments(row.raw).get(row.experiment) if row.effect != "" and RAW[row.raw].endswith("l") else None
        arms = [results.experiment.arms[label] for label in (row.arm, row.twin)] if results else []
        if results is None or arms[0].settings != arms[1].settings or row.method == "justrl":  # it has no part
            continue
        known = {name: getattr(row, name) for name in ("claim", "paper", "experiment", "score", "seeds", "verdict")}
        if row.control not in ("", "holds"):
            known["verdict"] = f"{row.verdict}, {row.control}"
        known |= {name: float(f"{getattr(row, name):.6g}") for name in ("effect", "low", "high")}
        objectives = {"objective": arms[0].objective, "objective_against": arms[1].objective}
        found.append(known | objectives | {"trouble": results.experiment.failure_mode, "p_corrected": None})
    return found


# ---- scores that are tested together ---------------------------------------------------------------------------------


def scored_arms(results: ExperimentResults, looks: int) -> pd.DataFrame:
    """Every arm against base by every score of `Experiment.scores`, all of them one family in Holm's steps."""
    smallest = results.experiment.scores
    found = []
    for label in results.arms:
        for score in smallest:
            compared = compare(results, label, BASE, score)
            records = results.arms[label].records
            mean = float(results.arms[label].values(score, sorted(records)).mean())
            known = compared.difference
            of_arm = {"arm": label, "score": score, "seeds": len(records), "mean": mean}
            of_test = {"effect": known.mean, "low": known.low, "high": known.high, "p": known.p_value} if known else {}
            found.append(of_arm | (of_test if label != BASE else {}))
    table = pd.DataFrame(found)
    tested = table["p"].notna()
    table.loc[tested, "p_holm"] = Family(int(tested.sum()), looks).adjusted(table.loc[tested, "p"].tolist())
    return table


# ---- files -----------------------------------------------------------------------------------------------------------


COLORS = {
    Verdict.REPRODUCED: "tab:blue",
    Verdict.CONTRADICTED: "tab:red",
    Verdict.NOT_REPRODUCED: "tab:orange",
    Verdict.OPEN: "0.6",
}


CLAIM = 52
"""Characters in a line of a claim beside its interval."""
EDGE = 6
"""Smallest differences beyond which an arrow stands for a point or an end."""


def claims_figure(rows: Sequence[Row]) -> Figure:
    """Effect and interval of every claim in smallest differences that count; to the right is as the paper has it."""
    drawn = [row for row in rows if row.effect != "" and row.verdict != Verdict.CANNOT.value]
    with sns.axes_style("whitegrid"):
        figure = Figure(figsize=(8, 0.34 * len(drawn) + 1.2), layout="constrained")
        axis = figure.subplots()
        for place, row in enumerate(reversed(drawn)):
            sign = -1 if row.asks in ("lower", "not higher") else 1
            found = np.array([float(at) * sign / float(row.smallest) for at in (row.low, row.effect, row.high)])
            color = COLORS[Verdict(row.verdict)]
            style: dict[str, Any] = {
                "color": color,
                "markerfacecolor": "white" if row.raw.startswith("late") else color,
            }
            axis.plot(np.clip(found, -EDGE, EDGE), [place] * 3, color=color, linewidth=2)
            if abs(found[1]) <= EDGE:
                axis.plot(found[1], place, "o", **style)
            for end in {math.copysign(EDGE, at) for at in found if abs(at) > EDGE}:
                axis.plot(end, place, ">" if end > 0 else "<", **style)
        labels = [fill(f"{row.claim.removesuffix('.')} ({row.method})", CLAIM) for row in reversed(drawn)]
        axis.set_yticks(range(len(drawn)), labels, fontsize=8, linespacing=0.9)
        axis.axvspan(-1, 1, color="0.92", zorder=0)
        for verdict, color in COLORS.items():
            axis.plot([], [], "o-", color=color, label=verdict.value)
        axis.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=4)
        axis.set_xlabel(f"effect / smallest difference that counts; arrow: beyond {EDGE}; hollow: late", fontsize=8)
    return figure


BOUNDS = {
    "higher": "more than {} above",
    "lower": "more than {} below",
    "not lower": "at most {} below",
    "not higher": "at most {} above",
    "same": "within {} of",
}
FIXED = {"after": " (question or smallest difference written down after the results)"}
"""What a row says of when its question was written down; nothing where no result was there."""


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def page(rows: Sequence[Row]) -> str:
    """The table in Markdown, below how many there are of each verdict."""
    counts = ", ".join(f"{sum(row.verdict == it.value for row in rows)} {it.value}" for it in Verdict)
    lines = [
        f"{len(rows)} claims: {counts}. Means are of the arm, its twin and the untrained start; "
        "the effect is arm less twin.",
        '*In italics*: what the paper says, shortened; "from notes": not checked against the paper.',
        "",
        "| method | claim, and *what the paper says* | asked here | arm, twin, start | effect | seeds | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        asked = (
            f"`{row.experiment}`: {row.score} of {row.arm} {BOUNDS[row.asks].format(row.smallest)} {row.twin}"
            if row.asks
            else "-"
        )
        means = ", ".join(_number(value) or "-" for value in (row.arm_mean, row.twin_mean, row.start_mean))
        effect = f"{_number(row.effect)} [{_number(row.low)}, {_number(row.high)}]" if row.effect != "" else "-"
        verdict = f"**{row.verdict}**" + (f": {row.left}" if row.left else "")
        if row.control not in ("", "holds"):
            verdict += f" ({row.control})"
        lines.append(
            f"| {row.method} | {row.claim} *{row.words}* ({row.paper}) | {asked}{FIXED.get(row.fixed, '')} | {means} "
            f"| {effect} | {row.seeds or '-'} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def main(folder: Path = BENCHMARKS) -> None:
    """Writes everything."""
    declared = yaml.safe_load((folder / "claims" / "claims.yaml").read_text(encoding="utf-8"))
    rows = all_rows(declared)
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) | {"raw": RAW.get(row.raw, "")} for row in rows)
    write_text(folder / "claims.csv", text.getvalue())
    write_text(folder / "claims" / "claims.md", page(rows))
    write_json(folder / "claims" / "claims.json", {"claims": records(rows)})
    save_figure(claims_figure(rows), folder / "claims" / "claims.png")
    scored_arms(experiments("late")["late"], LOOKS["late"]).to_csv(folder / "claims" / "late.csv", index=False)


if __name__ == "__main__":
    main()
