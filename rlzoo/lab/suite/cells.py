"""The cells of a suite: which there are to be, which are done, and the file that keeps them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from objectives import OF_TURNS, Objective, ObjectiveError, parse
from rlzoo.errors import UserError
from rlzoo.files import append_json_line, locked, read_json_lines, write_json_lines
from rlzoo.lab.suite.catalogue import load_experiment
from rlzoo.lab.suite.cell import CellResult
from rlzoo.lab.suite.experiment import BASE, Arm, Experiment
from rlzoo.lab.suite.seeds import BASE_SEEDS, Seeds
from rlzoo.lab.suite.source import experiment_digest, objective_key
from rlzoo.records import BOUNDED, COUNT, KEYS, NUMBER, NUMBERS, TEXT, Fields


@dataclass(frozen=True)
class CellKind:
    """What makes two cells the same one, but for their seed."""

    experiment: str
    source: str
    """The digest of its code."""
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
    source = experiment_digest(experiment)
    kinds, refused = dict[str, CellKind](), dict[str, str]()
    for label, arm in chosen.items():
        settings = json.dumps(experiment.keys(arm), sort_keys=True)
        try:
            kinds[label] = CellKind(experiment.name, source, objective_key(_asked(arm)), settings)
        except ObjectiveError as error:
            refused[label] = str(error)
    return kinds, refused


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
        **{"scores": BOUNDED, "touched": NUMBERS, "seconds": NUMBER},
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
