"""Which runs there are: those on which thresholds were fixed, and others, with other tasks, recipes and seeds."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.doctor.cells import STEPS, Base, Cell
from benchmarks.doctor.faults import FAULTS, Fault
from rlzoo.doctor.indicators import FEWEST_STEPS

FRESH = {"train.minibatches_per_step": 2, "train.learning_rate": 5e-4}
"""Of an experiment whose own keys are the trouble: what its healthy arms have."""

SMALLER = {"rollout.prompts_per_step": 16}


@dataclass(frozen=True)
class Split:
    """Tasks, recipes and seeds that belong together."""

    name: str
    bases: Sequence[Base]
    recipes: Sequence[str]
    first_seed: int
    faults: Sequence[Fault] = FAULTS
    steps: int = STEPS

    def healthy(self, count: int) -> Iterator[Cell]:
        """So many healthy runs, tasks and recipes in turn."""
        pairs = self._pairs(0)
        for number in range(count):
            base, recipe = pairs[number % len(pairs)]
            yield Cell(base, recipe, self.first_seed + number, None, steps=self.steps)

    def faulty(self, count: int) -> Iterator[Cell]:
        """So many runs with a fault, faults in turn, each as bad as chance will have it."""
        rng, pairs = random.Random(self.first_seed), self._pairs(1)
        for number in range(count):
            base, recipe = pairs[number % len(pairs)]
            fault = self.faults[number % len(self.faults)]
            seed = self.first_seed + 100_000 + number
            yield Cell(base, recipe, seed, fault, rng.uniform(0.25, 1.0), self.steps)

    def _pairs(self, shuffle: int) -> list[tuple[Base, str]]:
        pairs = [(base, recipe) for recipe in self.recipes for base in self.bases]
        random.Random(self.first_seed + shuffle).shuffle(pairs)
        return pairs


FIXED = Split(
    "fixed",
    (
        Base("letters", "stale_rollouts", FRESH),
        Base("forks", "forking_tokens"),
        Base("rare route", "rare_but_right", {"train.minibatches_per_step": 1}),
        Base("easy and hard", "easy_and_hard_mixed"),
        Base("many right", "many_right_answers", {"task.options.flip": 0.0, "rollout.prompts_per_step": 32, **FRESH}),
        Base("planted", "spurious_tokens", {"rollout.prompts_per_step": 32}),
        Base("twice", "all_wrong_groups", {"task.options.partial": True}),
        Base("two kinds", "who_moves_the_policy", {"rollout.prompts_per_step": 32}),
    ),
    ("grpo-kl", "justrl", "dr_grpo", "stapo(tau_p=0.1)", "rloo", "gspo", "maxrl"),
    first_seed=0,
)
"""On these, thresholds were fixed: on the first three tasks and recipes, and again on the others, where they failed."""
MEASURED = Split(
    "measured",
    (
        Base("climb", "benchmarks.doctor.tasks:CLIMB"),
        Base("brackets", "benchmarks.doctor.tasks:BRACKETS"),
        Base("increasing", "benchmarks.doctor.tasks:INCREASING"),
    ),
    (
        "advantage_reweighting",
        "lite_ppo",
        "opo",
        "reinforce_pp_baseline",
        "stare-dynamic_sampling",
        "lopti",
        "grpo-kl+dual_clip",
    ),
    first_seed=3_000_000,
)
"""On these, error rates are measured."""
EMBEDDED = Split(
    "embedded",
    (Base("sums", "", SMALLER), Base("knights", "", {**SMALLER, "task.name": "knights"})),
    ("grpo-kl", "stapo+clip_higher"),
    first_seed=2_000_000,
)
"""The shipped models: the same thresholds again. On `sums` a healthy run learns to think."""
_NAMED = {fault.name: fault for fault in FAULTS}
LONG = Split(
    "long",
    MEASURED.bases,
    MEASURED.recipes,
    first_seed=4_000_000,
    faults=[_NAMED[name] for name in ("rate of 1e-9", "noisy sampler", "rate of 1e-9", "reversed log-softmax")],
    steps=FEWEST_STEPS,
)
"""As long as `idle_learning_rate` needs, whose rates are of these, as are those of the detectors that stand in."""
