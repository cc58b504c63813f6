"""The keys of `rlzoo warmup`, `rlzoo map` and `rlzoo suite`."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from rlzoo.config.schema import Count, Natural, Number, Positive, Share


@dataclass
class WarmupTaskConfig:
    name: str = "sums"
    """A task that comes with demonstrations: `sums`, `arithmetic`, `calculator`, `knights` or `planted_arithmetic`."""
    options: dict[str, Any] = field(default_factory=dict)
    """Parameters of the task, e.g. `task.options.digits=3`."""


@dataclass
class WarmupConfig:
    output: str = "runs/warmup-{task}"
    """The folder of the finished model, which must not exist yet; `rlzoo train` takes it as `model.name`."""
    task: WarmupTaskConfig = field(default_factory=WarmupTaskConfig)
    seed: Natural = 0
    """Seeds weights and demonstrations; the same seed on the same machine gives the same model."""
    slip_rate: Annotated[Number, Ge(0), Lt(1)] = 0.02
    """The rate at which a character of a demonstration that could be wrong, such as a digit, is wrong."""
    hidden_size: Count = 96
    """Width of the model; a multiple of 32, the width of an attention head."""
    intermediate_size: Count = 288
    """Width inside the feed-forward layers."""
    layers: Count = 3
    """Transformer layers."""
    steps: Count = 1400
    """Optimiser updates."""
    clean_fraction: Share = 0.65
    """The first part of the steps, whose demonstrations have no slips."""
    demonstrations_per_step: Count = 64
    """Demonstrations of one update, each of a new random problem."""
    learning_rate: Positive = 2e-3
    """AdamW's highest rate, reached after a twentieth of the steps; from there it falls to 0 along a cosine."""


MapRegime = Literal[
    "on_policy",
    "stale",
    "slightly_stale",
    "mismatched",
    "hard",
    "long",
    "sharp",
    "wrong_rewards",
    "partial_rewards",
    "small_groups",
    "large_groups",
]
"""The regimes of the map of the zoo. `rlzoo.lab.map.regimes` defines each."""


@dataclass
class MapConfig:
    regimes: list[MapRegime] = field(default_factory=list)
    """Where objectives are looked at: `regimes=stale,hard`; all eleven if empty."""
    batches: Annotated[int, Ge(8)] = 24
    """Batches of rollouts in each regime, which all objectives share."""
    seed: Natural = 0
    """Seeds the rollouts; policies and rewards of a regime are always the same."""
    step: Annotated[Number, Gt(0), Le(0.1)] = 0.01
    """How far a step moves the policy: the KL divergence of a response, in nats, to second order."""
    output: str = "runs/map"
    """Where map.md, .csv and pictures go."""


@dataclass
class SuiteConfig:
    experiments: list[str] = field(default_factory=list)
    """Which questions are asked: `experiments=rare_but_right,length_bias`; all that rlzoo has if empty. Others as
    `my_file.py:EXPERIMENT` or `my_module:EXPERIMENT`."""
    seeds: list[str] = field(default_factory=lambda: ["10"])
    """One number is a count of the registered seeds 1100, 1101, ...; several are the seeds themselves: `seeds=0,1`.
    `seeds=auto(up_to=40)` begins with ten, and adds more to experiments with an open claim."""
    base_against_base: bool = False
    """Train the base of each experiment with 40 further seeds, and compare it with itself."""
    jobs: Count = 1
    """How many cells at a time, each in a process of one thread."""
    output: str = "runs/suite"
    """The folder of cells.jsonl, which keeps what is done, and of tables and pictures."""
