"""Seeds where they decide something: `seeds=auto(up_to=10)`.

Every objective starts with FIRST seeds. Whoever is not yet better or worse (or the same, where that is asked) at every
decoding gets further ones, and so does the baseline, until `up_to`; in between the page is looked at, at numbers of
seeds that `up_to` settles beforehand.

Who looks K times and stops at what pleases errs up to K times as often, so each look may err in 5 % / K of cases:
Bonferroni's split, which holds however the looks depend on each other. A row that is claimed gets no more seeds; so a
claim on the last page was one at the look that stopped it, and all pages together have a false one in at most 5 %.
Every page of such a grid is judged so, also one that somebody looks at in between.

A row that is far from a verdict is left as well: that can cost a finding, and never makes a false one.
"""

import math

FIRST = 3
"""Seeds that every objective starts with."""
GROWTH = 1.4
HOPELESS = 10
"""A row whose difference would take so many times `up_to` seeds gets no more."""


def looks(up_to: int) -> tuple[int, ...]:
    """The numbers of seeds at which a page is looked at; just once if seeds are given (`up_to` 0)."""
    numbers = [FIRST]
    while numbers[-1] < up_to:
        numbers.append(min(up_to, math.ceil(GROWTH * numbers[-1])))
    return tuple(numbers)


def next_look(seeds: int, up_to: int) -> int:
    """How many seeds a row that has so many gets next; as many as it has if there is no further look."""
    return next((look for look in looks(up_to) if look > seeds), seeds)


def wants_seeds(is_decided: bool, is_open: bool, seeds_needed: int, up_to: int) -> bool:
    """Whether further seeds may decide what is said of a row at one decoding.

    `is_open`: it is unstable, or may turn out to be the same; otherwise so many `seeds_needed` would tell it apart.
    """
    return not is_decided and (is_open or 0 < seeds_needed <= HOPELESS * up_to)
