"""Pages of methods whose truth is known, simulated whole.

Problems of very different difficulty, methods that are more or less apt for each of them, trained models that deviate
from their method, once as a whole (seed effect) and on each problem, and binomial answers. No method is better than the
baseline but by what is said.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rlzoo.statistics.aggregates import area_under_curve
from rlzoo.statistics.differences import Differences, RunScores, compare_rows, stable_rows, with_instability

METHODS, PROBLEMS, SAMPLES = 8, 512, 8
FOUND = 0.054
SPREAD, NOISE = 0.0092, 0.0075
"""Standard deviations of a run's mean, and of what answers and single problems have in it; the rest is the seed's. So
paired t-tests with Holm's correction find 5.4 points in about 31 % of comparisons with three seeds."""
METHOD_EFFECT = RUN_EFFECT = 0.05
"""Standard deviations over problems: of a method, and of a trained model."""


@dataclass(frozen=True)
class Scenario:
    """How trained models deviate from their methods."""

    wider: Mapping[int, float] = field(default_factory=dict)
    """Times the spread of the runs, by row; row 0 is the baseline."""
    spread: float = SPREAD
    """Of the runs of all other rows."""
    common: float = 0.0
    """The share of the seed effect's variance that all methods have in common."""
    collapses: Mapping[int, float] = field(default_factory=dict)
    """How often a run of a row falls by 20 points."""
    problems: int = PROBLEMS
    samples: int = SAMPLES
    better: float = 0.0
    """The true difference of the last row."""
    decodings: int = 1
    methods: int = METHODS
    found: float = FOUND
    """The true difference that is to be found, by moving the truth of the last rows."""
    real: int = 1
    """How many these are."""
    noise: float = NOISE
    modes: Mapping[int, float] = field(default_factory=dict)
    """By row, half the distance of two modes of which each run is in one, both with the same probability."""
    falls: Mapping[int, tuple[float, float, float]] = field(default_factory=dict)
    """By row, how much better its runs are, how often one collapses, and how far it falls then."""
    measures: int = 1
    """How many of avg@k, pass@k and maj@k the page judges by."""
    seeds: Sequence[int] = (3, 10)
    """With how many the page is simulated."""
    evaluations: int = 0
    """How many there are before the last one; if any, the page judges by the area under their curve as well."""

    @property
    def truth(self) -> np.ndarray:
        """[methods] the mean of each row's runs, against that of the baseline without differences."""
        truth = np.zeros(self.methods)
        for row, chance in self.collapses.items():
            truth[row] = -COLLAPSE * chance
        for row, (better, chance, fall) in self.falls.items():
            truth[row] = better - chance * fall
        return truth

    @property
    def special(self) -> set[int]:
        """Rows whose runs are unlike those of the others."""
        return {*self.wider, *self.collapses, *self.modes, *self.falls}


LOWER_NOISE = 0.0045
"""With 32 samples."""
SMALL = Scenario(spread=0.011, found=0.036, real=6, decodings=2, samples=32, noise=LOWER_NOISE)
"""The last six of eight rows are 3.6 points better; runs deviate by 1.1 points."""
BOARD = Scenario(measures=3, decodings=2)
"""What the committed boards judge by."""
AREA = Scenario(evaluations=5, seeds=(3,))
FOUR = replace(BOARD, evaluations=5, seeds=(3,))
"""What it would judge by with evaluations on the way."""
SCENARIOS = {
    "normal": Scenario(),
    "normal, two decodings": Scenario(decodings=2),
    "one method x 5": Scenario(wider={3: 5.0}),
    "the baseline x 5": Scenario(wider={0: 5.0}),
    "two methods collapse": Scenario(collapses={3: 0.2, 5: 0.2}),
    "correlated seeds": Scenario(common=0.9, spread=2 * SPREAD),
    "few problems": Scenario(problems=30, samples=32),
    "3.6 points": SMALL,
    "3.6 points, three rows only": replace(SMALL, real=3, seeds=(3,)),
    "3.6 points, three rows only, wider runs": replace(SMALL, real=3, spread=0.013, seeds=(3,)),
    "3.6 points, correlation 0.7": replace(SMALL, common=0.84),
    "3.6 points, one method x 5, correlation 0.7": replace(SMALL, common=0.84, wider={1: 5.0}),
    "3.6 points, the baseline x 5": replace(SMALL, wider={0: 5.0}),
    "3.6 points, the baseline x 5, correlation 0.7": replace(SMALL, common=0.84, wider={0: 5.0}),
    "three measures": Scenario(measures=3),
    "avg@8 and area, one method x 5": replace(AREA, wider={3: 5.0}),
    "avg@8 and area, the baseline x 5": replace(AREA, wider={0: 5.0}),
    "four measures, two decodings, one method x 5": replace(FOUR, wider={3: 5.0}),
    "four measures, two decodings, the baseline x 5": replace(FOUR, wider={0: 5.0}),
    "three measures, two decodings": BOARD,
    "three measures, two decodings, one method x 5": replace(BOARD, wider={3: 5.0}),
    "three measures, two decodings, the baseline x 5": replace(BOARD, wider={0: 5.0}),
    "47 methods": Scenario(methods=47, seeds=(3,)),
    "one method in two modes": Scenario(modes={3: 0.07}),
    "the baseline in two modes": Scenario(modes={0: 0.07}),
    "one method collapses in a third": Scenario(falls={3: (0.06, 1 / 3, 0.30)}),
}
COLLAPSE = 0.20


def simulate(generator: np.random.Generator, scenario: Scenario, seeds: int) -> list[list[RunScores]]:
    """The rows of a page for each decoding and measure."""
    methods = scenario.methods
    spread = scenario.spread * np.array([scenario.wider.get(row, 1.0) for row in range(methods)])[:, None]
    spread = np.sqrt(spread**2 - scenario.noise**2)
    own, common = generator.normal(size=(methods, seeds)), generator.normal(size=(1, seeds))
    whole = spread * (np.sqrt(1 - scenario.common) * own + np.sqrt(scenario.common) * common)
    chance = np.array([scenario.collapses.get(row, 0.0) for row in range(methods)])[:, None]
    whole = whole - COLLAPSE * (generator.random((methods, seeds)) < chance)
    for row, half in scenario.modes.items():
        whole[row] += half * generator.choice([-1, 1], size=seeds)
    for row, (better, often, fall) in scenario.falls.items():
        whole[row] += better - fall * (generator.random(seeds) < often)
    whole[-1] += scenario.better
    difficulty = 0.2 + 0.6 * generator.beta(0.7, 0.7, size=scenario.problems)
    method = _uniform(generator, METHOD_EFFECT, (methods, 1, scenario.problems))
    run = _uniform(generator, RUN_EFFECT, (methods, seeds, scenario.problems))
    rate = np.clip(difficulty + method + run + whole[:, :, None], 0, 1)
    measured = []
    for _ in range(scenario.decodings):
        drawn = generator.binomial(scenario.samples, rate) / scenario.samples
        measured += [measure(drawn) for measure in MEASURES[: scenario.measures]]
        if scenario.evaluations:
            jitter = JITTER * spread[:, :, None] * generator.normal(size=(scenario.evaluations, methods, seeds, 1))
            measured.append(_area(generator, rate, drawn, jitter, difficulty - RISE, scenario.samples))
    return [[RunScores(tuple(range(seeds)), values) for values in of_rows] for of_rows in measured]


RISE = 0.25
"""By how much training raises the accuracy."""
JITTER = 1.0
"""How far evaluations before the last deviate each by itself, in spreads of the seed effect."""


def _area(
    generator: np.random.Generator,
    rate: np.ndarray,
    last: np.ndarray,
    jitter: np.ndarray,
    start: np.ndarray,
    samples: int,
) -> np.ndarray:
    """[methods, seeds, problems] under the curves from one model, the same answers of a seed, to the `last` ones.

    What sets a run apart at the end grows up to there; `jitter` is [evaluations, methods, seeds, 1].
    """
    begun = generator.binomial(samples, np.clip(start, 0, 1), size=(1, *rate.shape[1:])) / samples
    curve = {0: np.broadcast_to(begun, rate.shape), len(jitter): last}
    for step in range(1, len(jitter)):
        grown = 1 - (1 - step / len(jitter)) ** 2
        on_the_way = np.clip(start + grown * (rate - start) + jitter[step], 0, 1)
        curve[step] = generator.binomial(samples, on_the_way) / samples
    return area_under_curve(curve)


MEASURES: Sequence[Callable[[np.ndarray], np.ndarray]] = (
    lambda right: right,
    lambda right: np.where(right > 0, 1.0, 0.0),
    lambda right: np.where(right > 0.4, 1.0, 0.0),
)
"""avg@k, pass@k and maj@k, if wrong answers are seldom equal, of the share of right answers to each problem."""


def _uniform(generator: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> np.ndarray:
    return np.sqrt(3) * deviation * generator.uniform(-1, 1, size=shape)


def compared(pages: list[list[RunScores]], scenario: Scenario) -> list[Differences]:
    """Every decoding and measure of a page, as `verdicts.judge` compares them."""
    units = dict(zip(("avg", "pass", "maj"), (1 / scenario.samples, 1.0, 1.0), strict=True))
    by = [*list(units)[: scenario.measures], *["area"] * (scenario.evaluations > 0)] * scenario.decodings
    units["area"] = 1 / (2 * max(1, scenario.evaluations) * scenario.samples)
    each = [compare_rows(rows, 0, units[measure]) for rows, measure in zip(pages, by, strict=True)]
    names = range(scenario.methods)
    stable = stable_rows(each, [names] * len(each), by)
    return [with_instability(differences, stable, names) for differences in each]
