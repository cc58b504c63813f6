"""Seeds that are added until a page decides, and the analyses in between.

`seeds=auto(up_to=10)`: every objective starts with FIRST seeds. A row that is not yet better or worse (or the same,
where that is asked) at every decoding gets further ones, and so does the baseline, until `up_to`. In between there
are interim analyses, at numbers of seeds that `up_to` settles beforehand.

With K analyses that may stop the grid, up to K times as many err, so each may err in 5 % / K of cases: Bonferroni's
split, which holds however they depend on each other. A row that is claimed gets no more seeds; so a claim on the last
leaderboard was one at the analysis that stopped it, and all together have a false one in at most 5 %. Every
leaderboard of such a grid is judged so, also one that is asked for in between.

A row that is far from a verdict is left as well: that can cost a finding, and never makes a false one.
"""

import math

FIRST = 3
"""Seeds that every objective starts with."""
GROWTH = 1.4
HOPELESS_FACTOR = 10
"""A row gets no more seeds if its difference would take more than this many times `up_to` seeds."""


def looks(up_to: int, first: int = FIRST, growth: float = GROWTH) -> tuple[int, ...]:
    """The numbers of seeds at which a page is looked at; just once if seeds are given (`up_to` 0)."""
    numbers = [first]
    while numbers[-1] < up_to:
        numbers.append(min(up_to, math.ceil(growth * numbers[-1])))
    return tuple(numbers)


def next_look(seeds: int, up_to: int) -> int:
    """The number of seeds at the next look of a row with `seeds` seeds; `seeds` if there is no further look."""
    return next((look for look in looks(up_to) if look > seeds), seeds)


def wants_seeds(is_decided: bool, is_open: bool, seeds_needed: int, up_to: int) -> bool:
    """Whether further seeds may decide the verdict on a row at one decoding.

    `is_open`: the row is unstable, or may turn out to be the same. Otherwise `seeds_needed` seeds would distinguish it.
    """
    return not is_decided and (is_open or 0 < seeds_needed <= HOPELESS_FACTOR * up_to)
