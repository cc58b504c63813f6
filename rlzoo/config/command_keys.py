"""The keys of the commands other than `rlzoo train`."""

import shutil
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from rlzoo.config.schema import Count, Expression, Natural, Number, Positive, Share
from rlzoo.errors import UserError


@dataclass
class ShowConfig:
    show: Literal["", "config"] = ""
    """`show=config` prints every key with its value and where that comes from, and trains nothing."""


@dataclass
class TrustConfig:
    trust: list[str] = field(default_factory=list)
    """Folders or files that others may have made and whose code may run: parts, tasks and rewards from outside that
    they name are imported, and `model.trust_remote_code` holds. What is typed, or in a YAML file of one's own, needs
    none."""


@dataclass
class SlurmConfig:
    partition: str = ""
    """The partition that jobs go to; if empty, Slurm's own choice."""
    time: Count = 1440
    """Minutes after which Slurm ends a job; another goes on with its run."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further options of sbatch: `slurm.options={account: lab, cpus_per_task: 8}`."""
    cluster: Literal["slurm", "local"] = "slurm"
    """`slurm`, or `local`, which tries the same jobs out as processes of this machine."""


LAUNCHERS = {"local": "", "slurm": "submitit", "ray": "ray"}
"""Launcher -> the package that it needs."""


@dataclass
class GridConfig:
    seeds: list[Natural] = field(default_factory=lambda: [0, 1, 2])
    """Every objective is trained once with each of them: `seeds=0,1,2`. `seeds=auto(up_to=10)` starts with these three
    and adds seeds to the rows where they decide something, and to the baseline; the folder stays so."""
    jobs: Count = 1
    """How many runs at a time, each in a process of its own; on this machine they share the cores equally."""
    launcher: Literal["local", "slurm", "ray"] = "local"
    """Where runs are trained: `local` on this machine, `slurm` in jobs of submitit, `ray` in tasks of the cluster that
    RAY_ADDRESS names. Nodes of a cluster see the same files under the same names, and have rlzoo."""
    gpus: Natural = 1
    """GPUs of each run: several on this machine are dealt out, a cluster is asked for them. From 2 up, torchrun starts
    one process on each; 0 asks for none."""
    slurm: SlurmConfig = field(default_factory=SlurmConfig)
    output: str = ""
    """The folder of the grid; if empty, runs/NAME, or else runs/compare with its settings behind it, or with its model,
    its task and a digest where these are long. What is done there is not done again; more rows and seeds join it."""
    name: str = ""
    """What the comparison is called: its folder is runs/NAME."""
    baseline: Expression = ""
    """The row that differences are taken to; with its own settings, `baseline='grpo train.learning_rate=1e-4'`.
    If empty: what is ablated, or `grpo` if it is there, or the first row."""
    equivalence: Annotated[Number, Ge(0), Le(100)] = 0.0
    """As for `rlzoo leaderboard`: a row that is surely less than this many points from the baseline is called the same.
    `seeds=auto` then adds seeds to the rows that are not yet better, worse or the same."""

    @property
    def folder(self) -> Path | None:
        """The one that is named; None if neither `output` nor `name` is given."""
        return Path(self.output or Path("runs", self.name)) if self.output or self.name else None

    def check(self) -> None:
        """Raises UserError for two names or a path as a name, and for a launcher that is not there or not set up."""
        if self.name in (".", "..") or "/" in self.name or "\\" in self.name:
            raise UserError(f"name={self.name} is no name of a folder in runs/; for a path type output={self.name}")
        if self.folder and self.folder.suffix in (".csv", ".parquet", ".yaml", ".yml"):
            raise UserError(f"{self.folder.name} is the name of a file, and a grid is a folder; choose another")
        if self.output and self.name:
            raise UserError(f"name={self.name} has no effect beside output={self.output}; leave one of them out")
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
    baseline: Expression = ""
    """What differences are taken to; of a table, one of its methods. If empty: the baseline of the grid, or `grpo` if
    it is there, or the first."""
    equivalence: Annotated[Number, Ge(0), Le(100)] = 0.0
    """Points: a row that is surely less than this from the baseline is called the same; 0 asks for nothing."""
    primary: str = ""
    """The measure that decides, named before there are results: `primary=avg`, `pass`, `maj` or `area`, or at one
    decoding `primary='pass at 0.7/0.9'`. Its verdicts are corrected for that measure alone, those of the others for
    all; if empty, all measures are corrected together."""
    benchmarks: list[str] = field(default_factory=list)
    """What `rlzoo eval` measured of the runs, in place of their held-out problems: `benchmarks=aime24,math500`."""
    title: str = ""
    """The heading of the page; if empty, model, task and steps, or the name of the table."""


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
class GradeConfig:
    output: str = ""
    """The file that the graded lines go to; it must not exist yet. With `regrade=true` a folder; if empty, new records
    go beside the old as `NAME.regraded.jsonl`."""
    overwrite: bool = False
    """Replace the file that `output` names; with `regrade=true` the old records."""
    workers: Count = 1
    """Processes that grade."""
    timeout: Positive = 10.0
    """Seconds after which the grading of one response is killed and counted as a time-out."""
    allow_unconfined: bool = False
    """With `regrade=true`: grade also by scorers that run what a model wrote where no kernel confines them (macOS,
    Linux before 5.13)."""
    regrade: bool = False
    """The files are kept responses of evaluations or of training: they are graded again with the grader as it is now,
    and the grades that change are listed."""
    reward: str = ""
    """With `regrade=true`: another function that grades them, as of `task.reward`; a judge for example."""


@dataclass
class InspectConfig:
    step: Natural | None = None
    """The checkpoint that samples, by its step: the rollouts that come next; 0 is the starting model, none the last."""
    objective: Expression = ""
    """What is looked at. If empty, what the run trains with; the rollouts are the same."""
    against: Expression = ""
    """A second objective, shown beside the first on the same rollouts."""
    groups: Count = 8
    """How many groups are shown token by token: those with masked tokens first, then those with a signal."""
    tokens: Count = 400
    """How many tokens of a response are shown."""
    probability: Share = 0.5
    """From here up a token counts as probable."""
    entropy: Share = 0.8
    """The quantile of the entropy from which a place counts as uncertain."""
    output: str = ""
    """The page to write; if empty, one in the folder `microscope` of the run."""


@dataclass
class PushConfig:
    private: bool = False
    """Make a new model private."""
    revision: str = ""
    """The branch to commit to, which must exist; if empty, the main one."""


@dataclass
class FitConfig:
    gpus: Count = 1
    """How many GPUs, one process on each."""
    memory: Positive = 80.0
    """GiB that each GPU has."""
    teraflops: Positive = 275.0
    """TFLOP/s that each GPU reaches, from which hours follow. Scoring and training Qwen3-1.7B on an H200 reached 275,
    and 384 with `model.compile=true`."""


OWN: dict[str, type[Any] | str] = {
    "train": ShowConfig,
    "eval": BenchmarksConfig,
    "grade": GradeConfig,
    "compare": GridConfig,
    "leaderboard": LeaderboardConfig,
    "inspect": InspectConfig,
    "map": "MapConfig",
    "suite": "SuiteConfig",
    "fit": FitConfig,
    "warmup": "WarmupConfig",
    "push": PushConfig,
}
"""Command -> the schema of its own keys; a name is that of a schema of the laboratory, `rlzoo.lab.keys`."""
TRUSTING = ("train", "task", "eval", "grade", "compare", "inspect", "fit")
"""Those that read files which may name code."""


def own_schema(command: str) -> type[Any]:
    """The schema of a command's own keys. The laboratory is imported for its commands alone."""
    schema = OWN[command]
    if isinstance(schema, str):
        laboratory: type[Any] = getattr(import_module("rlzoo.lab.keys"), schema)
        return laboratory
    return schema
