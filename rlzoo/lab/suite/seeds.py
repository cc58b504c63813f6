"""Which seeds are trained, which of the cells that are done count, and how often tables are looked at.

With `seeds=auto` an experiment of which something is still open gets twice as many seeds, again and again. Who looks K
times and stops at what pleases errs up to K times as often: each look may err in an equal part of 5 % (Bonferroni, as
in `statistics/sequential.py`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlzoo.errors import UserError
from rlzoo.files import read_json, write_json
from rlzoo.lab.suite.experiment import FIRST_SEED, Experiment

BASE_SEEDS = tuple(range(2000, 2040))
"""On which base is compared with itself."""
FIRST_LOOK = 10
"""Seeds that every experiment gets with `seeds=auto`."""
UP_TO = 40
"""Seeds that one may get where the number is not given."""
MOST = 800
"""Registered seeds that any experiment has."""
LOOKS = "looks.json"


@dataclass(frozen=True)
class Seeds:
    """So many of the registered seeds of each experiment, or those that are listed."""

    count: int = 0
    listed: Sequence[int] = ()
    up_to: int = 0
    """How many an experiment may get, of which something is open; 0 if their number is given."""

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of registered seeds at which the tables are looked at."""
        numbers = [self.count]
        while numbers[-1] < self.up_to:
            numbers.append(min(self.up_to, 2 * numbers[-1]))
        return () if self.listed else tuple(numbers)

    def of(self, experiment: Experiment) -> Sequence[int]:
        """Those that are trained."""
        return self.listed or range(experiment.first_seed, experiment.first_seed + self.count)

    def has(self, experiment: Experiment, seed: int) -> bool:
        """Whether a cell of this seed counts.

        Registered seeds count whether they were asked for now or earlier; others only where they are asked for, and
        then alone.
        """
        registered = range(experiment.first_seed, BASE_SEEDS[0])
        return seed in (registered if all(asked in registered for asked in self.of(experiment)) else self.listed)


def chosen_seeds(given: Sequence[str]) -> Seeds:
    """A number is how many of the registered seeds. Raises UserError."""
    text = ",".join(given).replace(" ", "")
    if auto := re.fullmatch(r"auto(\(up_to=(\d+)\))?", text):
        up_to = int(auto[2] or UP_TO)
        if not FIRST_LOOK < up_to <= MOST:
            raise UserError(f"seeds={text}: up_to must be above {FIRST_LOOK}, which all get, and at most {MOST}")
        return Seeds(count=FIRST_LOOK, up_to=up_to)
    if not given or not all(re.fullmatch(r"\d+", seed.strip()) for seed in given):
        raise UserError(f"seeds={text} must be how many seeds, several seeds, auto or auto(up_to={UP_TO})")
    seeds = [int(seed) for seed in given]
    if seeds == [0] or len(set(seeds)) < len(seeds):
        raise UserError(f"seeds={text} must be how many seeds, or several different ones")
    if len(seeds) == 1:
        if seeds[0] > MOST:
            raise UserError(f"seeds={text}: {MOST} seeds at most are registered; several are listed as seeds=0,1")
        return Seeds(count=seeds[0])
    if set(seeds) & set(BASE_SEEDS):
        first, last = BASE_SEEDS[0], BASE_SEEDS[-1]
        raise UserError(f"seeds={seeds[0]},...: {first} to {last} are for base_against_base; choose others")
    return Seeds(listed=tuple(seeds))


def count_looks(folder: Path, seeds: Seeds) -> int:
    """Notes in a suite's folder at how many registered seeds it is looked at; how many looks these are together.

    Seeds that are not registered are judged alone, and their looks are not counted. Raises UserError if the count is
    damaged.
    """
    if any(seed < FIRST_SEED for seed in seeds.listed):
        return 1
    path = folder / LOOKS
    seen = sorted({*_seen(path), *seeds.looks})
    write_json(path, seen)
    return max(1, len(seen))


def _seen(path: Path) -> list[int]:
    if not path.exists():
        return []
    try:
        counts = read_json(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        counts = None
    if not isinstance(counts, list) or not all(type(count) is int and 0 < count <= MOST for count in counts):
        raise UserError(f"{path} is damaged; remove it, and looks are counted afresh")
    return counts
