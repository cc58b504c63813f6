"""Experiments: a task that has a failure mode, arms that differ in one mechanism, a score, controls, claims."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rlzoo.config.recorded import is_outside
from rlzoo.errors import UserError, nearest
from rlzoo.tasks.outside import load_outside

if TYPE_CHECKING:
    from rlzoo.lab.suite.measures import Trained

BASE = "base"
"""The arm that every other one is compared with, unless a contrast says otherwise."""
START = "start"
"""The policy before training: base with one step that does not move it."""
TYPED = " as typed"
"""Behind the label of an objective that was asked for where an arm of the experiment's own has its name."""
FIRST_SEED = 1100
"""Where registered seeds begin; experiments are designed with seeds below 100."""
SETTINGS: Mapping[str, Any] = {
    "rollout.prompts_per_step": 32,
    "rollout.responses_per_prompt": 8,
    "train.steps": 20,
    "train.minibatches_per_step": 1,
    "train.learning_rate": 1e-3,
}
"""Keys of a run that hold in every experiment which does not say otherwise."""


@dataclass(frozen=True)
class Arm:
    """An objective, and the keys of a run in which this arm differs from its experiment."""

    objective: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Contrast:
    """Two arms, and whether the first is to have the higher score; the seeds of both are the same."""

    arm: str
    higher: bool
    against: str = BASE


@dataclass(frozen=True)
class Claim(Contrast):
    """What a paper says of a mechanism, as this experiment can see it."""

    text: str = ""
    """The claim in a sentence."""
    paper: str = ""
    """`arXiv:...`, with the section or table."""
    published: str = ""
    """Direction and size as the paper has them."""
    smallest: float = 0.0
    """The smallest difference of the score that counts, fixed before any result."""


@dataclass(frozen=True)
class Start:
    """How the starting policy is made from the task's demonstrations, whose frequencies are its probabilities.

    `slip_rate` is passed to the task's `demonstration`, but in the first part of the steps, `clean_fraction`.
    """

    steps: int = 300
    slip_rate: float = 0.0
    clean_fraction: float = 0.0
    hidden_size: int = 32
    intermediate_size: int = 64
    layers: int = 1
    learning_rate: float = 5e-3


@dataclass(frozen=True)
class Experiment:
    """One question, asked in a language in which the answer can be seen."""

    name: str
    failure_mode: str
    """A tag of `objectives.FAILURE_MODES`."""
    question: str
    task: type
    """A `DemonstratedTask`; `task.options` are its parameters."""
    arms: Mapping[str, Arm]
    """By name; `base` is one of them."""
    score: str
    """The name of a number that `measure` gives."""
    unit: str
    """What the score is, in a few words."""
    higher_is_better: bool
    measure: "Callable[[Trained], Mapping[str, float]]"
    """What a trained cell is asked, all numbers; some are in the tables beside the score."""
    positive: Contrast
    """An arm that knows the truth, or in which the effect must appear; where it does not, the experiment is void."""
    negative: tuple[str, str]
    """Two arms that differ as a claim's do, where the failure mode is switched off: shown to differ by less than
    counts."""
    claims: Sequence[Claim]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keys of a run that are not those of `SETTINGS`."""
    start: Start = Start()
    first_seed: int = FIRST_SEED
    """This and those behind it are registered. A design that was mended after its results were seen has others."""
    same_within: float = 0.0
    """How much the arms of the negative control may differ; 0 is the smallest difference of the score that counts."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores that are tested together, every arm against base, and the smallest difference of each that counts."""
    source: str = ""
    """The version of its task, measure and start in `cells.jsonl`: write another where numbers change. If empty, the
    digest of the files that define them."""
    added: str = ""
    """What any other objective needs to be asked this question: `+epochs(count=16)`. It is trained with base's keys."""

    @property
    def margin(self) -> float:
        """How much the arms of the negative control may differ."""
        counts = [claim.smallest for claim in self.claims] or [self.scores[self.score]]
        return self.same_within or min(counts)

    def arm_of(self, objective: str) -> Arm:
        """An arm that is no arm of the experiment's own."""
        return Arm(objective + self.added, self.arms[BASE].settings)

    def label_of(self, objective: str) -> str:
        """That of an objective that is no arm of the experiment's own, which may have an arm of that name."""
        return objective + TYPED if objective in self.arms else objective

    def keys(self, arm: Arm) -> dict[str, Any]:
        """Keys of the run of an arm, but for objective, seed, model, task and folder."""
        return {**SETTINGS, **self.settings, **arm.settings}


# ---- by name ---------------------------------------------------------------------------------------------------------


DECLARED = Path(__file__).with_name("experiments.yaml")


@cache
def _declared() -> Mapping[str, Mapping[str, Any]]:
    loaded: Mapping[str, Mapping[str, Any]] = yaml.safe_load(DECLARED.read_text(encoding="utf-8"))
    return loaded


def own_names() -> list[str]:
    """Names of the experiments of this package. No experiment is imported for them."""
    return sorted(_declared())


@cache
def _own(name: str) -> Experiment:
    """The experiment of `experiments.yaml`, with its task and its measure imported."""
    values = dict(_declared()[name])
    has_start = values.pop("start_scored", True)
    task, measure = (_imported(values.pop(key)) for key in ("task", "measure"))
    arms = {label: _arm(arm) for label, arm in values.pop("arms").items()}
    if has_start:
        unmoved = {**arms[BASE].settings, "train.steps": 1, "train.learning_rate": 1e-12}
        arms[START] = Arm(arms[BASE].objective, unmoved)
    return Experiment(
        name=name,
        task=task,
        measure=measure,
        arms=arms,
        positive=Contrast(**values.pop("positive")),
        negative=tuple(values.pop("negative")),
        claims=[Claim(**claim) for claim in values.pop("claims")],
        start=Start(**values.pop("start", {})),
        **values,
    )


def _arm(declared: str | Mapping[str, Any]) -> Arm:
    if isinstance(declared, str):
        return Arm(declared)
    return Arm(declared["objective"], {key: value for key, value in declared.items() if key != "objective"})


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"{__package__}.{module}"), attribute)


def check_names(written: Sequence[str]) -> None:
    """Refuses experiments that there are not, before any is imported. Raises UserError."""
    for name in written:
        if name in own_names() or is_outside(name):
            continue
        near = nearest(name, own_names()) or f"; there are {', '.join(own_names())}"
        raise UserError(f"experiments={name}: there is no such experiment{near}, or give my_file.py:EXPERIMENT")
    if len(set(written)) < len(written):
        raise UserError(f"experiments={','.join(written)}: each is named once")


def load_experiment(written: str) -> Experiment:
    """The experiment of this name. Raises UserError if there is none, or if it is not whole."""
    if written in own_names():
        return _own(written)
    loaded = load_outside("experiments", written)
    if not isinstance(loaded, Experiment):
        raise UserError(f"experiments={written} is a {type(loaded).__name__}, not an Experiment of rlzoo.lab.suite")
    if loaded.name in own_names():
        raise UserError(f"experiments={written}: the name {loaded.name} is taken by one of rlzoo; choose another")
    return loaded
