"""The suite as values, for what reads them: no sentences but those that an experiment itself has."""

from collections.abc import Mapping
from typing import Any

from rlzoo.lab.suite.claims import BaseAgainstBase, Compared, Controls, JudgedClaim, JudgedExperiment
from rlzoo.lab.suite.contrasts import Contrasted, Pairs
from rlzoo.lab.suite.results import ArmResults
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.statistics.intervals import Estimate
from rlzoo.statistics.paired import mean_by_seed


def claims_values(suite: SuiteTable) -> dict[str, Any]:
    """`claims.json`."""
    return {"claims": [_claim(experiment, claim) for experiment, claim in suite.claims]}


def scores_values(suite: SuiteTable) -> dict[str, Any]:
    """`scores.json`."""
    return {
        "experiments": [
            _experiment(experiment, contrasts)
            for experiment, contrasts in zip(suite.experiments, suite.contrasts, strict=True)
        ],
        "pairs": _pairs(suite.pairs),
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
        "void": [trouble.name.lower() for trouble in of.controls.troubles],
    }


def _compared(compared: Compared) -> dict[str, Any]:
    known = compared.difference
    return {
        "arm": compared.arm,
        "against": compared.against,
        **_estimate(known, "effect"),
        "deviation": known and rounded(known.deviation),
        "seeds": known.pairs if known else 0,
        "p": known and rounded(known.p_value),
        "p_corrected": known and rounded(compared.corrected),
    }


def _estimate(estimate: Estimate | None, name: str) -> dict[str, float | None]:
    values = (
        (None, None, None)
        if estimate is None
        else (rounded(estimate.mean), rounded(estimate.low), rounded(estimate.high))
    )
    return dict(zip((name, "low", "high"), values, strict=True))


def _experiment(judged: JudgedExperiment, contrasts: Mapping[str, Contrasted]) -> dict[str, Any]:
    results, experiment = judged.results, judged.results.experiment
    return {
        "experiment": experiment.name,
        "trouble": experiment.trouble,
        "question": experiment.question,
        "score": experiment.score,
        "unit": experiment.unit,
        "higher_is_better": experiment.higher_is_better,
        "arms": [_arm(arm, experiment.score, label in experiment.arms) for label, arm in results.arms.items()],
        "contrasts": [_contrasted(contrasted) for contrasted in contrasts.values()],
        "controls": _controls(judged.controls),
        "void": [trouble.name.lower() for trouble in judged.controls.troubles],
    }


def _arm(results: ArmResults, score: str, is_own: bool) -> dict[str, Any]:
    seeds = sorted(results.records)
    values = results.values(score, seeds)
    several = len(seeds) > 1
    first = results.records[seeds[0]].scores
    return {
        "arm": results.label,
        "objective": results.arm.objective,
        "settings": dict(results.arm.settings),
        "own": is_own,
        "mean": rounded(float(values.mean())),
        "deviation": rounded(float(values.std(ddof=1))) if several else None,
        "seeds": len(seeds),
        **({name: _estimate(mean_by_seed(values), "mean")[name] for name in ("low", "high")} if several else {}),
        "beside": {name: rounded(float(results.values(name, seeds).mean())) for name in first if name != score},
        "touched": _rounded(results.touched),
        "cpu_seconds": rounded(sum(record.seconds for record in results.records.values()) / len(seeds)),
    }


def _contrasted(contrasted: Contrasted) -> dict[str, Any]:
    standardised = None if contrasted.standardised is None else rounded(contrasted.standardised)
    return {**_compared(contrasted.compared), "standardised": standardised, "standing": contrasted.standing.value}


def _controls(controls: Controls) -> dict[str, Any]:
    return {
        "positive": {**_compared(controls.positive), "higher": controls.positive_higher},
        "negative": _compared(controls.negative),
        "base_against_base": controls.base and _base(controls.base),
    }


def _base(base: BaseAgainstBase) -> dict[str, Any]:
    return {
        "groups": base.groups,
        "comparisons": base.comparisons,
        "told_apart": base.told_apart,
        "p": rounded(base.p_value),
        "p_corrected": rounded(base.corrected),
    }


def _pairs(pairs: Pairs) -> dict[str, Any]:
    return {
        "tests": pairs.tests,
        "pairs": len(pairs.pairs),
        "different": pairs.different,
        "told_apart": pairs.told_apart,
        "told_apart_in": [
            {"objectives": list(pair.objectives), "experiments": list(pair.told_apart_in)}
            for pair in pairs.pairs
            if pair.told_apart_in
        ],
        "same": [list(pair.objectives) for pair in pairs.pairs if pair.is_same],
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: rounded(value) for name, value in values.items()}


def rounded(value: float) -> float:
    """Six digits: what other machines round otherwise is left out."""
    return float(f"{value:.6g}")
