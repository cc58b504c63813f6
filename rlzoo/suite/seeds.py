"""Which seeds are trained, and which of the cells that are done count."""

from collections.abc import Sequence
from dataclasses import dataclass

from rlzoo.errors import UserError
from rlzoo.suite.experiment import Experiment

BASE_SEEDS = tuple(range(2000, 2040))
"""On which base is compared with itself."""


@dataclass(frozen=True)
class Seeds:
    """So many of the registered seeds of each experiment, or those that are listed."""

    count: int = 0
    listed: Sequence[int] = ()

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


def chosen_seeds(given: Sequence[int]) -> Seeds:
    """A number is how many of the registered seeds. Raises UserError."""
    if not given or given == [0] or len(set(given)) < len(given):
        raise UserError(f"seeds={','.join(map(str, given))} must be how many seeds, or several different ones")
    if len(given) == 1:
        return Seeds(count=given[0])
    if set(given) & set(BASE_SEEDS):
        first, last = BASE_SEEDS[0], BASE_SEEDS[-1]
        raise UserError(f"seeds={given[0]},...: {first} to {last} are for base_against_base; choose others")
    return Seeds(listed=tuple(given))
