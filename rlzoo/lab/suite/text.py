"""The suite in words: sentences, Markdown and CSV."""

from collections.abc import Iterable, Sequence

from rlzoo.experiment.experiment import counted
from rlzoo.lab.suite.claims import ClaimVerdict, Compared, Controls, ControlTrouble, JudgedClaim, JudgedExperiment
from rlzoo.lab.suite.contrasts import Contrasted, Pairs, Standing
from rlzoo.lab.suite.experiment import Claim
from rlzoo.lab.suite.results import ArmResults
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.values import rounded
from rlzoo.report.table import Cell, Column, Shown, Table, in_markdown
from rlzoo.statistics.verdicts import SIGNIFICANCE

VERDICTS = {
    ClaimVerdict.HOLDS: "holds here",
    ClaimVerdict.DOES_NOT_HOLD: "does not hold here",
    ClaimVerdict.CANNOT_TELL: "cannot tell",
    ClaimVerdict.DOES_NOT_FIRE: "does not fire here",
    ClaimVerdict.VOID: "void",
}
TROUBLES = {
    ControlTrouble.POSITIVE: "its positive control was not told apart in its direction",
    ControlTrouble.NEGATIVE: "its negative control was told apart",
    ControlTrouble.BASE: "base was told apart from itself",
}
MARKS = {Standing.HIGHER: "\u25b2", Standing.LOWER: "\u25bc", Standing.SAME_RUN: "=", Standing.NOT_TOLD_APART: ""}
"""Higher or lower than base for sure; the same run."""


def verdict(judged: JudgedClaim) -> str:
    """In words, with the seeds that would tell."""
    words = VERDICTS[judged.verdict]
    if judged.verdict is not ClaimVerdict.CANNOT_TELL:
        return words
    if judged.compared.difference is None:
        return f"{words}: fewer than two seeds"
    if judged.seeds_needed is None or not any(judged.seeds_needed):
        return f"{words}: would need over a thousand seeds"
    low, high = judged.seeds_needed
    return f"{words}: would need about {f'{low} to {high}' if high else f'{low} or more'} seeds"


def effect(compared: Compared) -> str:
    """The difference with its interval."""
    known = compared.difference
    return "-" if known is None else f"{known.mean:+.3g} [{known.low:+.3g}, {known.high:+.3g}]"


def p_value(compared: Compared) -> str:
    """Corrected."""
    if compared.difference is None:
        return "-"
    return "< .0001" if compared.corrected < 1e-4 else f"{compared.corrected:.4f}".lstrip("0").replace("1.0000", "1")


def touched(judged: JudgedClaim) -> str:
    """What the arm's own parts acted on."""
    return ", ".join(f"{part} {100 * share:.2g} %" for part, share in judged.touched.items()) or "not counted"


def contrast(claim: Claim) -> str:
    """What a claim compares, with the direction that was published."""
    return f"{claim.arm} {'higher' if claim.higher else 'lower'} than {claim.against}"


def controls(tested: Controls) -> str:
    """What the controls said, in a sentence."""
    if tested.troubles:
        return f"void: {'; '.join(TROUBLES[trouble] for trouble in tested.troubles)}"
    base = "base against base was not run"
    if tested.base:
        base = f"base against base {tested.base.told_apart} of {tested.base.comparisons} below {SIGNIFICANCE:g}"
    return (
        f"positive {effect(tested.positive)}, p {p_value(tested.positive)}; negative {effect(tested.negative)}, "
        f"p {p_value(tested.negative)}; {base}"
    )


def summary(suite: SuiteTable) -> str:
    """How many claims there are of each verdict, and how many experiments are valid."""
    claims = [claim.verdict for _, claim in suite.claims]
    counts = [f"{claims.count(outcome)} {words}" for outcome, words in VERDICTS.items() if outcome in claims]
    valid = sum(not experiment.controls.troubles for experiment in suite.experiments)
    return (
        f"{counted(len(claims), 'claim')}: {', '.join(counts)}; {valid} of {len(suite.experiments)} experiments valid"
    )


def pairs(counts: Pairs) -> str:
    """How many pairs of objectives are told apart, in a sentence; empty where there are none."""
    if not counts.pairs:
        return ""
    share = 100 * counts.told_apart / max(1, counts.different)
    return (
        f"{counts.told_apart} of {counts.different} pairs of objectives with different runs are told apart in some "
        f"valid experiment ({share:.0f} %; {counts.tests} tests, corrected together)"
    )


def base_against_base(suite: SuiteTable) -> str:
    """Over all experiments; empty where it was not run."""
    bases = [experiment.controls.base for experiment in suite.experiments if experiment.controls.base]
    if not bases:
        return ""
    told, all_of_them = sum(base.told_apart for base in bases), sum(base.comparisons for base in bases)
    return f"base against base on further seeds: {told} of {all_of_them} comparisons below {SIGNIFICANCE:g}"


def looks(suite: SuiteTable) -> str:
    """At how many numbers of seeds these tables were looked at; empty where it was one."""
    return f"every p-value is corrected for {suite.looks} looks, at other numbers of seeds" if suite.looks > 1 else ""


def standardised(contrasted: Contrasted | None) -> str:
    """The effect in standard deviations of a run, with its mark."""
    if contrasted is None or contrasted.standardised is None:
        return "" if contrasted is None else MARKS[contrasted.standing]
    return f"{contrasted.standardised:+.1f}{MARKS[contrasted.standing]}"


def remarks(suite: SuiteTable) -> list[str]:
    """What is said of all experiments together, in sentences."""
    return [sentence for sentence in (base_against_base(suite), pairs(suite.pairs), looks(suite)) if sentence]


def markdown(suite: SuiteTable) -> str:
    """The claims, the controls and every arm."""
    lines = ["# The behaviour suite", "", f"{summary(suite)}.", ""]
    lines += [f"{sentence[0].upper()}{sentence[1:]}.\n" for sentence in remarks(suite)]
    lines += ["## Claims", "", _markdown(CLAIM_HEADS, map(_claim, suite.claims)), "", "## Experiments", ""]
    for judged, contrasts in zip(suite.experiments, suite.contrasts, strict=True):
        experiment = judged.results.experiment
        lines += [
            f"### {in_markdown(experiment.name)}",
            "",
            f"{in_markdown(experiment.question)} Score: {in_markdown(experiment.unit)}.",
            "",
        ]
        lines += [f"Controls: {in_markdown(controls(judged.controls))}.", ""]
        rows = [_arm(arm, experiment.score, contrasts.get(label)) for label, arm in judged.results.arms.items()]
        lines += [_markdown(ARM_HEADS, rows), ""]
    return "\n".join(lines)


CLAIM_HEADS = ("experiment", "claim", "paper", "contrast", "published", "effect here", "p", "verdict", "touched")
ARM_HEADS = ("arm", "objective", "mean", "seeds", "to base", "in deviations", "p")


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[Shown]]) -> str:
    return Table([Column(head) for head in heads], [*rows]).markdown()


def _claim(judged_in: tuple[JudgedExperiment, JudgedClaim]) -> list[Shown]:
    (experiment, judged), claim = judged_in, judged_in[1].claim
    texts = (experiment.results.experiment.name, claim.text, claim.paper, contrast(claim), claim.published)
    numbers = (effect(judged.compared), p_value(judged.compared))
    return [*texts, *numbers, Cell(verdict(judged), kind="strong"), touched(judged)]


def _arm(arm: ArmResults, score: str, beside: Contrasted | None) -> list[Shown]:
    mean = arm.values(score, sorted(arm.records)).mean()
    numbers = (effect(beside.compared), standardised(beside), p_value(beside.compared)) if beside else ("",) * 3
    return [arm.label, Cell(arm.arm.objective, is_code=True), f"{mean:.3g}", str(len(arm.records)), *numbers]


def comma_separated(suite: SuiteTable) -> str:
    """A line for each claim."""
    heads = ["experiment", "arm", "against", "higher", "smallest", "effect", "low", "high", "seeds", "p", "p_corrected"]
    columns = [Column(head) for head in (*heads, "verdict", "claim", "paper")]
    return Table(columns, [_cells(*judged_in) for judged_in in suite.claims]).csv()


def _cells(experiment: JudgedExperiment, judged: JudgedClaim) -> list[Shown]:
    claim, known = judged.claim, judged.compared.difference
    numbers: list[Shown] = [""] * 6
    if known:
        values = (known.mean, known.low, known.high, known.pairs, known.p_value, judged.compared.corrected)
        numbers = [rounded(value) for value in values]
    row = [experiment.results.experiment.name, claim.arm, claim.against, claim.higher, claim.smallest, *numbers]
    return [*row, judged.verdict.value, claim.text, claim.paper]
