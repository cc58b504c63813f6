"""What may be said of the rows of a page by one measure: intervals, differences to the baseline, verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlzoo.comparing.differences import Comparison, Page, Runs, compare_rows
from rlzoo.comparing.planning import detectable, seeds_needed
from rlzoo.evaluation.intervals import Distribution, Estimate, share

SIGNIFICANCE = 0.05
HOPELESS = 0.5
"""If so large a difference would have been missed, the seeds are too few to say that nothing was found."""


@dataclass(frozen=True)
class Difference(Estimate):
    """A row minus the baseline; all intervals of a page hold together in 95 % of cases."""

    alone: Estimate
    """With the 95 % interval of this row if it were the only one."""
    p_value: float
    """Two-sided, corrected for everything that the page compares."""
    p_different: float
    """Of the row being at least `equivalence` better or worse, corrected; 1 if that is not asked."""
    detectable: float
    """The true difference that would have been found with 80 % probability."""
    seeds_needed: int
    """How many seeds find a difference as large as this with 80 % probability; 0 if no number does."""


@dataclass(frozen=True)
class Measured:
    """A row by one measure and decoding. `difference` is None for the baseline."""

    estimate: Estimate
    by_seed: tuple[float, ...]
    difference: Difference | None
    is_unstable: bool
    """Its runs lie further apart than those of the other rows."""
    verdict: str

    @property
    def claim(self) -> str:
        """`better`, `worse` or nothing."""
        return next((word for word in ("better", "worse") if self.verdict.startswith(word)), "")


@dataclass(frozen=True)
class Verdicts:
    """All rows by one measure."""

    rows: Sequence[Mapping[str, Measured]]
    """For each decoding, by row."""
    correlations: Sequence[float]
    """Of seeds, for each decoding."""


def judge(
    decodings: Sequence[Mapping[str, Runs]],
    alike: Sequence[Mapping[str, str]],
    baseline: str,
    step: float,
    equivalence: float = 0.0,
    looks: int = 1,
) -> Verdicts:
    """Verdicts on a page, with the runs of all rows for each decoding.

    `alike` names for every row the first that answered just the same: they are one row here. Values of a problem are
    multiples of `step`; a row that is surely less than `equivalence` from the baseline is called the same.
    The page is one of so many `looks` at a grid to which seeds are added.
    """
    distinct = [list(dict.fromkeys(names.values())) for names in alike]
    comparisons = [
        compare_rows([runs[name] for name in names], names.index(same[baseline]), step)
        for runs, names, same in zip(decodings, distinct, alike, strict=True)
    ]
    page = Page.of(comparisons, looks)
    rows = []
    for runs, names, same, comparison in zip(decodings, distinct, alike, comparisons, strict=True):
        own = {}
        for name in runs:
            place = names.index(same[name])
            difference = None if name == baseline else _difference(comparison, place, page, equivalence)
            unstable = comparison.is_unstable(place)
            own[name] = Measured(
                share(comparison.means[place], runs[name].problems),
                tuple(map(float, runs[name].values.mean(axis=1))),
                difference,
                unstable,
                verdict(difference, min(len(runs[it].seeds) for it in (name, baseline)), unstable, equivalence),
            )
        rows.append(own)
    return Verdicts(rows, [it.spread.correlation if it.spread else 0.0 for it in comparisons])


def _difference(comparison: Comparison, row: int, page: Page, equivalence: float) -> Difference:
    known, spread = comparison.differences[row], comparison.spread
    if known is None:
        nothing = Estimate(0.0, 0.0, 0.0)
        return Difference(0.0, 0.0, 0.0, nothing, 1.0, 0.0 if equivalence else 1.0, 0.0, 0)
    level, pair = page.level, comparison.pair(row)
    together = known.interval(1 - level)
    return Difference(
        known.center,
        max(-1.0, together.low),
        min(1.0, together.high),
        alone=known.interval(),
        p_value=page.adjusted(known.p_value()),
        p_different=page.adjusted(p_different(known, equivalence)) if equivalence else 1.0,
        detectable=detectable(known, level) if pair else 0.0,
        seeds_needed=seeds_needed(spread, pair, known, known.center, level) if spread and pair else 0,
    )


def p_different(known: Distribution, margin: float) -> float:
    """The larger of two one-sided p-values, of the truth being above `margin` and below -`margin` (Schuirmann 1987)."""
    return max(known.below(-margin), 1 - known.below(margin))


def verdict(difference: Difference | None, seeds: int, is_unstable: bool = False, equivalence: float = 0.0) -> str:
    """What may be said of a row against the baseline; `seeds` is the smaller number of the two."""
    if difference is None:
        return "baseline, unstable" if is_unstable else "baseline"
    if difference.mean == difference.low == difference.high == 0:
        return "the same responses"
    if seeds == 1:
        return "one seed: no verdict"
    unstable = ", unstable" if is_unstable else ""
    if difference.p_value < SIGNIFICANCE:
        return ("better" if difference.mean > 0 else "worse") + unstable
    if difference.p_different < SIGNIFICANCE:
        return f"the same within {100 * equivalence:g}{unstable}"
    if is_unstable:
        return "unstable: more seeds"
    return "too few seeds" if difference.detectable > HOPELESS else "not distinguishable"
