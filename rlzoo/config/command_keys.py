"""The keys of the commands other than `rlzoo train`."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar

from rlzoo.config.key_range import Range, check_keys
from rlzoo.errors import UserError


@dataclass
class ShowConfig:
    show: str = ""
    """`show=config` prints every key with its value and where that comes from, and trains nothing."""


@dataclass
class SlurmConfig:
    partition: str = ""
    """The partition that jobs go to; if empty, Slurm's own choice."""
    time: int = 1440
    """Minutes after which Slurm ends a job; another goes on with its run."""
    options: dict[str, Any] = field(default_factory=dict)
    """What else sbatch is told: `slurm.options={account: lab, cpus_per_task: 8}`."""
    cluster: str = "slurm"
    """`slurm`, or `local`, which tries the same jobs out as processes of this machine."""


LAUNCHERS = {"local": "", "slurm": "submitit", "ray": "ray"}
"""Launcher -> the package that it needs."""


@dataclass
class GridConfig:
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])
    """Every objective is trained once with each of them: `seeds=0,1,2`. `seeds=auto(up_to=10)` starts with these three
    and adds seeds to the rows where they decide something, and to the baseline; the folder stays so."""
    jobs: int = 1
    """How many runs at a time, each in a process of its own; on this machine they share the cores equally."""
    launcher: str = "local"
    """Where runs are trained: `local` on this machine, `slurm` in jobs of submitit, `ray` in tasks of the cluster that
    RAY_ADDRESS names. Nodes of a cluster see the same files under the same names, and have rlzoo."""
    gpus: int = 1
    """GPUs of each run: several on this machine are dealt out, a cluster is asked for them. From 2 up, torchrun starts
    one process on each; 0 asks for none."""
    slurm: SlurmConfig = field(default_factory=SlurmConfig)
    output: str = ""
    """The folder of the grid; if empty, runs/compare with its settings behind it, so that a grid of other settings is
    another. What is done there is not done again; further objectives and seeds join it."""
    baseline: str = ""
    """What differences are taken to. If empty: what is ablated, or `grpo` if it is there, or the first objective."""
    ranges: ClassVar[Mapping[str, Range]] = {
        "seeds": Range(least=0),
        "jobs": Range(least=1),
        "gpus": Range(least=0),
        "launcher": Range(choices=tuple(LAUNCHERS)),
        "slurm.cluster": Range(choices=("slurm", "local")),
        "slurm.time": Range(least=1),
    }

    def check(self) -> None:
        """Raises UserError for a number out of range, and for a launcher that is not there or not as it is set up."""
        check_keys(self)
        if self.launcher != "slurm" and self.slurm != SlurmConfig():
            raise UserError(f"slurm.* has no effect with launcher={self.launcher}; set launcher=slurm, or leave it out")
        package = LAUNCHERS[self.launcher]
        if package and find_spec(package) is None:
            raise UserError(
                f"launcher={self.launcher} needs the package {package}; pip install 'rlzoo-llm[{self.launcher}]'"
            )
        if self.launcher == "slurm" and self.slurm.cluster == "slurm" and not shutil.which("sbatch"):
            raise UserError(
                "launcher=slurm: sbatch is not there; start the grid where jobs are submitted from, or try it out with "
                "slurm.cluster=local"
            )


@dataclass
class LeaderboardConfig:
    output: str = ""
    """Where leaderboard.html, .md and .csv go; if empty, into the folder of the grid, or else runs/leaderboard."""
    baseline: str = ""
    """What differences are taken to. If empty: the baseline of the grid, or `grpo` if it is there, or the first."""
    equivalence: float = 0.0
    """Points: a row that is surely less than this from the baseline is called the same; 0 asks for nothing."""
    benchmarks: list[str] = field(default_factory=list)
    """What `rlzoo eval` measured of the runs, in place of their held-out problems: `benchmarks=aime24,math500`."""
    title: str = "Leaderboard"
    """The heading of the page."""
    ranges: ClassVar[Mapping[str, Range]] = {"equivalence": Range(least=0, most=100)}


@dataclass
class BenchmarksConfig:
    benchmarks: list[str] = field(default_factory=list)
    """Instead of the task: `benchmarks=aime24,math500`; `all`, the six of the STAPO paper; `justrl`, JustRL's nine; or
    YAML files of your own, with source, split, samples, instruction, template and metric."""
    benchmarks_folder: str = ""
    """A folder with `NAME.parquet` for each benchmark; if empty, they come from the hub."""
    examples: str = ""
    """A file of worked examples, JSON lines with problem and response, put before every prompt as earlier turns."""


@dataclass
class VerifierConfig:
    url: str = ""
    """An OpenAI-compatible endpoint that judges what the rules refuse: `http://localhost:8000/v1`; none if empty."""
    model: str = ""
    """The model to ask for there, e.g. `opencompass/CompassVerifier-3B`."""
    template: str = ""
    """A file with its prompt, which names {question}, {gold_answer} and {llm_response}; if empty, a short one."""
    parallel: int = 16
    """How many answers are judged at a time."""
    timeout: float = 120.0
    """Seconds to wait for a verdict."""


@dataclass
class RegradeConfig:
    output: str = ""
    """The folder that the new records go to; if empty, they go beside the old as `NAME.regraded.jsonl`."""
    overwrite: bool = False
    """Put the new records in place of the old."""
    workers: int = 1
    """Processes that grade."""
    timeout: float = 10.0
    """Seconds after which the grading of one response is killed and counted as a time-out."""
    show: int = 10
    """How many changed grades are listed for each file."""
    verifier: VerifierConfig = field(default_factory=VerifierConfig)
    """A model that judges what the rules refuse; scores with and without it are shown."""
    ranges: ClassVar[Mapping[str, Range]] = {
        "workers": Range(least=1),
        "timeout": Range(above=0),
        "show": Range(least=0),
        "verifier.parallel": Range(least=1),
        "verifier.timeout": Range(above=0),
    }


@dataclass
class GradeConfig:
    output: str = ""
    """The file that the graded lines go to; it must not exist yet."""
    overwrite: bool = False
    """Replace the file that `output` names."""
    workers: int = 1
    """Processes that grade."""
    timeout: float = 10.0
    """Seconds after which the grading of one response is killed and counted as a time-out."""
    ranges: ClassVar[Mapping[str, Range]] = {"workers": Range(least=1), "timeout": Range(above=0)}


@dataclass
class InspectConfig:
    step: int | None = None
    """The checkpoint that samples, by its step: the rollouts that come next; 0 is the starting model, none the last."""
    objective: str = ""
    """What is looked at. If empty, what the run trains with; the rollouts are the same."""
    against: str = ""
    """A second objective, shown beside the first on the same rollouts."""
    groups: int = 8
    """How many groups are shown token by token: those with silenced tokens first, then those with a signal."""
    tokens: int = 400
    """How many tokens of a response are shown."""
    probability: float = 0.5
    """From here up a token counts as probable."""
    entropy: float = 0.8
    """The quantile of the entropy from which a place counts as uncertain."""
    output: str = ""
    """The page to write; if empty, one in the folder `microscope` of the run."""
    ranges: ClassVar[Mapping[str, Range]] = {
        "step": Range(least=0),
        "groups": Range(least=1),
        "tokens": Range(least=1),
        "probability": Range(least=0, most=1),
        "entropy": Range(least=0, most=1),
    }


@dataclass
class PushConfig:
    private: bool = False
    """Make a new model private."""
    revision: str = ""
    """The branch to commit to, which must exist; if empty, the main one."""


@dataclass
class WarmupTaskConfig:
    name: str = "arithmetic"
    """A task that comes with demonstrations: `arithmetic`, `knights` or `planted_arithmetic`."""
    options: dict[str, Any] = field(default_factory=dict)
    """Parameters of the task, e.g. `task.options.digits=3`."""


@dataclass
class WarmupConfig:
    output: str = "runs/warmup-{task}"
    """The folder of the finished model, which must not exist yet; `rlzoo train` takes it as `model.name`."""
    task: WarmupTaskConfig = field(default_factory=WarmupTaskConfig)
    seed: int = 0
    """Seeds weights and demonstrations; the same seed on the same machine gives the same model."""
    slip_rate: float = 0.1
    """The rate at which a character of a demonstration that could be wrong, such as a digit, is wrong."""
    hidden_size: int = 128
    """Width of the model; a multiple of 32, the width of an attention head."""
    intermediate_size: int = 384
    """Width inside the feed-forward layers."""
    layers: int = 4
    """Transformer layers."""
    steps: int = 1000
    """Optimiser updates."""
    clean_fraction: float = 0.0
    """The first part of the steps, whose demonstrations have no slips."""
    demonstrations_per_step: int = 128
    """Demonstrations of one update, each of a new random problem."""
    learning_rate: float = 2e-3
    """AdamW's highest rate, reached after a twentieth of the steps; from there it falls to 0 along a cosine."""
    ranges: ClassVar[Mapping[str, Range]] = {
        "seed": Range(least=0),
        "slip_rate": Range(least=0, below=1),
        "hidden_size": Range(least=1),
        "intermediate_size": Range(least=1),
        "layers": Range(least=1),
        "steps": Range(least=1),
        "clean_fraction": Range(least=0, most=1),
        "demonstrations_per_step": Range(least=1),
        "learning_rate": Range(above=0),
    }


@dataclass
class FitConfig:
    gpus: int = 1
    """How many GPUs, one process on each."""
    memory: float = 80.0
    """GiB that each GPU has."""
    teraflops: float = 400.0
    """TFLOP/s that each GPU reaches, from which hours follow; 400 is two fifths of an H100's in bfloat16."""
    ranges: ClassVar[Mapping[str, Range]] = {
        "gpus": Range(least=1),
        "memory": Range(above=0),
        "teraflops": Range(above=0),
    }
