"""The suite as values, for what reads them: no sentences but those that an experiment itself has."""

from collections.abc import Mapping
from typing import Any

from rlzoo.statistics.intervals import Estimate
from rlzoo.statistics.paired import mean_by_seed
from rlzoo.suite.claims import BaseAgainstBase, Compared, Controls, JudgedClaim, JudgedExperiment
from rlzoo.suite.contrasts import Contrasted, Pairs
from rlzoo.suite.results import ArmResults
from rlzoo.suite.suite import SuiteTable


def claims_values(found: SuiteTable) -> dict[str, Any]:
    """`claims.json`."""
    return {"claims": [_claim(it, claim) for it, claim in found.claims]}


def scores_values(found: SuiteTable) -> dict[str, Any]:
    """`scores.json`."""
    return {
        "experiments": [
            _experiment(it, contrasts) for it, contrasts in zip(found.experiments, found.contrasts, strict=True)
        ],
        "pairs": _pairs(found.pairs),
    }


def _claim(of: JudgedExperiment, judged: JudgedClaim) -> dict[str, Any]:
    experiment, claim = of.results.experiment, judged.claim
    return {
        "experiment": experiment.name,
        "trouble": experiment.trouble,
        "claim": claim.text,
        "paper": claim.paper,
        "published": claim.published,
        **_compared(judged.compared),
        "objective": experiment.arms[claim.arm].objective,
        "objective_against": experiment.arms[claim.against].objective,
        "score": experiment.score,
        "higher": claim.higher,
        "smallest": claim.smallest,
        "verdict": judged.verdict.value,
        "seeds_needed": judged.seeds_needed,
        "touched": _rounded(judged.touched),
        "void": [it.name.lower() for it in of.controls.troubles],
    }


def _compared(it: Compared) -> dict[str, Any]:
    known = it.difference
    return {
        "arm": it.arm,
        "against": it.against,
        **_estimate(known, "effect"),
        "deviation": known and rounded(known.deviation),
        "seeds": known.pairs if known else 0,
        "p": known and rounded(known.p_value),
        "p_corrected": known and rounded(it.corrected),
    }


def _estimate(it: Estimate | None, name: str) -> dict[str, float | None]:
    values = (None, None, None) if it is None else (rounded(it.mean), rounded(it.low), rounded(it.high))
    return dict(zip((name, "low", "high"), values, strict=True))


def _experiment(it: JudgedExperiment, contrasts: Mapping[str, Contrasted]) -> dict[str, Any]:
    results, experiment = it.results, it.results.experiment
    return {
        "experiment": experiment.name,
        "trouble": experiment.trouble,
        "question": experiment.question,
        "score": experiment.score,
        "unit": experiment.unit,
        "higher_is_better": experiment.higher_is_better,
        "arms": [_arm(arm, experiment.score, label in experiment.arms) for label, arm in results.arms.items()],
        "contrasts": [_contrasted(it) for it in contrasts.values()],
        "controls": _controls(it.controls),
        "void": [trouble.name.lower() for trouble in it.controls.troubles],
    }


def _arm(it: ArmResults, score: str, is_own: bool) -> dict[str, Any]:
    seeds = sorted(it.records)
    values = it.values(score, seeds)
    several = len(seeds) > 1
    first = it.records[seeds[0]].scores
    return {
        "arm": it.label,
        "objective": it.arm.objective,
        "settings": dict(it.arm.settings),
        "own": is_own,
        "mean": rounded(float(values.mean())),
        "deviation": rounded(float(values.std(ddof=1))) if several else None,
        "seeds": len(seeds),
        **({name: _estimate(mean_by_seed(values), "mean")[name] for name in ("low", "high")} if several else {}),
        "beside": {name: rounded(float(it.values(name, seeds).mean())) for name in first if name != score},
        "touched": _rounded(it.touched),
        "cpu_seconds": rounded(sum(record.seconds for record in it.records.values()) / len(seeds)),
    }


def _contrasted(it: Contrasted) -> dict[str, Any]:
    standardised = None if it.standardised is None else rounded(it.standardised)
    return {**_compared(it.compared), "standardised": standardised, "standing": it.standing.value}


def _controls(it: Controls) -> dict[str, Any]:
    return {
        "positive": {**_compared(it.positive), "higher": it.positive_higher},
        "negative": _compared(it.negative),
        "base_against_base": it.base and _base(it.base),
    }


def _base(it: BaseAgainstBase) -> dict[str, Any]:
    return {
        "groups": it.groups,
        "comparisons": it.comparisons,
        "told_apart": it.told_apart,
        "p": rounded(it.p_value),
        "p_corrected": rounded(it.corrected),
    }


def _pairs(it: Pairs) -> dict[str, Any]:
    return {
        "tests": it.tests,
        "pairs": len(it.pairs),
        "different": it.different,
        "told_apart": it.told_apart,
        "told_apart_in": [
            {"objectives": list(pair.objectives), "experiments": list(pair.told_apart_in)}
            for pair in it.pairs
            if pair.told_apart_in
        ],
        "same": [list(pair.objectives) for pair in it.pairs if pair.is_same],
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: rounded(value) for name, value in values.items()}


def rounded(value: float) -> float:
    """Six digits: what other machines round otherwise is left out."""
    return float(f"{value:.6g}")
