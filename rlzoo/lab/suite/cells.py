"""The cells of a suite: which there are to be, on which seeds, which are done, and the file that keeps them."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import Any

from objectives import OF_TURNS, Objective, ObjectiveError, parse
from rlzoo.errors import UserError
from rlzoo.experiment.identity import part_sources
from rlzoo.files import append_json_line, locked, read_json, read_json_lines, write_json, write_json_lines
from rlzoo.lab.suite.experiment import BASE, FIRST_SEED, Arm, Experiment, load_experiment
from rlzoo.records import COUNT, KEYS, NUMBER, NUMBERS, TEXT, Fields
from rlzoo.source import digest
from rlzoo.statistics.interim_analyses import looks

# ---- seeds -----------------------------------------------------------------------------------------------------------


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
    """Seeds of each experiment: the first `count` registered ones, or those that are listed."""

    count: int = 0
    listed: Sequence[int] = ()
    up_to: int = 0
    """The most seeds of an experiment with an open claim; 0 if the number of seeds is given."""

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of registered seeds at which the tables are looked at."""
        return () if self.listed else looks(self.up_to, self.count, growth=2)

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
        raise UserError(f"{path} is damaged; remove it, and interim analyses are counted from 1")
    return counts


ORACLES = f"{__package__}.oracles"
"""The module of the parts that were made for experiments; it is imported where an expression names one."""
VERSIONS = {
    "amplify_rare": "6a837b2c4ee168f6",
    "first_token": "ce53fe82a5432d0b",
    "known_places": "a6ba57eaf13f2f01",
    "low_entropy": "dabd43f4b0c58669",
    "shorter_wrong": "df742e19017c27e3",
}
"""One of these parts -> the version of its code in `cells.jsonl`: write another where its numbers change."""
RECORDED_ROOM = "rlzoo.suite."
"""The name of this room in keys of objectives: what it was called when the first cells were kept."""


# ---- cells -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellKind:
    """What makes two cells the same one, but for their seed."""

    experiment: str
    source: str
    """The version of its code."""
    objective: str
    settings: str
    """The keys of the run as JSON."""


@dataclass(frozen=True)
class Cell:
    """One arm on one seed; picklable, as processes get it."""

    written: str
    """How the experiment was asked for."""
    label: str
    """Of the arm."""
    arm: Arm
    kind: CellKind
    seed: int

    @property
    def identity(self) -> tuple[CellKind, int]:
        """No two cells have the same."""
        return self.kind, self.seed

    @property
    def start(self) -> str:
        """The name of the folder of its starting policy."""
        return f"{self.kind.experiment}-{self.kind.source}"

    def __str__(self) -> str:
        return f"{self.kind.experiment}, {self.label}, seed {self.seed}"


def arms(experiment: Experiment, objectives: Sequence[str]) -> dict[str, Arm]:
    """Those of the experiment, and these objectives."""
    return {**experiment.arms, **{experiment.label_of(written): experiment.arm_of(written) for written in objectives}}


@dataclass(frozen=True)
class CellPlan:
    """What is to be trained."""

    cells: Sequence[Cell]
    refused: Mapping[tuple[str, str], str]
    """Experiment and objective -> why it cannot be asked that."""


def kinds_of(experiment: Experiment, chosen: Mapping[str, Arm]) -> tuple[dict[str, CellKind], dict[str, str]]:
    """Label -> kind; and label -> why there is none, as what an experiment adds may not go with an objective."""
    source = experiment.source or _digest_of_files(experiment)
    kinds, refused = dict[str, CellKind](), dict[str, str]()
    for label, arm in chosen.items():
        settings = json.dumps(experiment.keys(arm), sort_keys=True)
        try:
            kinds[label] = CellKind(experiment.name, source, objective_key(_asked(arm)), settings)
        except ObjectiveError as error:
            refused[label] = str(error)
    return kinds, refused


def _digest_of_files(experiment: Experiment) -> str:
    """The digest of the files that define an experiment from outside, and of its starting policy."""
    files = (Path(inspect.getfile(definition)) for definition in (experiment.task, experiment.measure))
    return digest([json.dumps(asdict(experiment.start)), *(file.read_text(encoding="utf-8") for file in files)])


def objective_key(objective: Objective) -> str:
    """The key of an objective, with the version of parts made for experiments and the digest of those from outside."""
    outside = [json.dumps(files, sort_keys=True) for _, files in sorted(part_sources(objective))]
    ours = [VERSIONS[part.name] for part in objective.parts if type(part).__module__ == ORACLES]
    if not ours:
        return f"{objective.key} {digest(outside)}" if outside else objective.key
    written = " . ".join(part.identity.replace(f"{__package__}.", RECORDED_ROOM) for part in objective.parts)
    version = digest([*ours, *outside]) if outside or len(ours) > 1 else ours[0]
    return f"{written} #{blake2b(written.encode(), digest_size=5).hexdigest()} {version}"


def _asked(arm: Arm) -> Objective:
    objective = parse(arm.objective)
    if "logp_teacher" in objective.needs:
        raise ObjectiveError(f"objective={objective} reads a teacher, and no experiment has one")
    if objective.needs & (OF_TURNS | {"writer"}):
        raise ObjectiveError(f"objective={objective} reads turns, and responses of the experiments are one each")
    return objective


def planned(names: Sequence[str], objectives: Sequence[str], seeds: Seeds, base_against_base: bool) -> CellPlan:
    """All that is asked for, seed by seed, so that what is done early says something of everything."""
    of_base, of_all, refused = list[Cell](), list[tuple[int, Cell]](), dict[tuple[str, str], str]()
    for name in names:
        experiment = load_experiment(name)
        chosen = arms(experiment, objectives)
        kinds, why = kinds_of(experiment, chosen)
        refused |= {(experiment.name, label): text for label, text in why.items()}
        distinct = {kind: label for label, kind in reversed(kinds.items())}
        for place, seed in enumerate(seeds.of(experiment)):
            of_all += [
                (place, Cell(name, label, chosen[label], kind, seed)) for kind, label in reversed(distinct.items())
            ]
        of_base.append(Cell(name, BASE, chosen[BASE], kinds[BASE], 0))
    cells = [cell for _, cell in sorted(of_all, key=itemgetter(0))]
    if base_against_base:
        cells += [replace(cell, seed=seed) for seed in BASE_SEEDS for cell in of_base]
    return CellPlan(cells, refused)


@dataclass(frozen=True)
class CellResult:
    """What a cell left."""

    scores: Mapping[str, float]
    touched: Mapping[str, float]
    """`touched/PART/tokens` and `mass` of the metrics, means over the steps: whether the parts acted at all."""
    seconds: float
    """Of the CPU."""


@dataclass(frozen=True)
class Record:
    """A cell that is done, as the file has it."""

    kind: CellKind
    seed: int
    label: str
    """Of the arm as which it was trained: of another objective, how it was written."""
    scores: Mapping[str, float]
    touched: Mapping[str, float]
    seconds: float

    @property
    def identity(self) -> tuple[CellKind, int]:
        """That of its cell."""
        return self.kind, self.seed

    def score(self, name: str) -> float:
        """One of its scores. Raises UserError if it has none of this name."""
        if name not in self.scores:
            raise UserError(
                f"cells.jsonl is damaged: {self.kind.experiment}, {self.label}, seed {self.seed} has no score {name}; "
                f"remove its line, and it is trained again"
            )
        return self.scores[name]


_CELL = Fields(
    {
        **{"experiment": TEXT, "source": TEXT, "arm": TEXT, "objective": TEXT, "settings": KEYS, "seed": COUNT},
        **{"scores": NUMBERS, "touched": NUMBERS, "seconds": NUMBER},
    }
)


@dataclass(frozen=True)
class CellFile:
    """`cells.jsonl`: a line for each cell that is done."""

    path: Path

    @contextmanager
    def held(self) -> Iterator[None]:
        """While this process alone appends to it. Raises UserError if another does."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = locked(self.path.with_name(".lock"))
        if lock is None:
            raise UserError(
                f"output={self.path.parent}: another rlzoo suite writes there; wait, or name another folder"
            )
        with lock:
            if self.path.exists() and not self.path.read_bytes().endswith(b"\n"):  # a line that a kill cut short
                write_json_lines(self.path, read_json_lines(self.path))
            yield

    def read(self) -> list[Record]:
        """Raises UserError for a damaged line."""
        return [_record(line) for line in read_json_lines(self.path, _CELL)]

    def append(self, cell: Cell, result: CellResult) -> None:
        """Adds one, in one write."""
        kind = cell.kind
        line = {
            "experiment": kind.experiment,
            "source": kind.source,
            "arm": cell.label,
            "expression": cell.arm.objective,
            "objective": kind.objective,
            "settings": json.loads(kind.settings),
            "seed": cell.seed,
            "scores": dict(result.scores),
            "touched": dict(result.touched),
            "seconds": round(result.seconds, 2),
        }
        append_json_line(self.path, line)


def _record(line: Mapping[str, Any]) -> Record:
    settings = json.dumps(line["settings"], sort_keys=True)
    return Record(
        CellKind(line["experiment"], line["source"], line["objective"], settings),
        line["seed"],
        line["arm"],
        line["scores"],
        line["touched"],
        line["seconds"],
    )
