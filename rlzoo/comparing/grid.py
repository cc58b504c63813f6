"""What a comparison consists of: objectives times seeds, a run folder for each, everything else the same."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from objectives import Objective, ObjectiveError, Part, parse, read_terms
from objectives.part import write_term
from rlzoo.config import Config, GridConfig, listed, load_config, with_embedded_default, words_of
from rlzoo.errors import UserError
from rlzoo.experiment.experiment import check, slug
from rlzoo.experiment.run_folder import RunFolder, check_same
from rlzoo.files import read_json_lines, write_json

GRID = "grid.json"
DEFAULTS = ("checkpoint.every=20",)
"""Settings of every grid that its own words may change: a run that is killed loses no more than these steps."""


@dataclass(frozen=True)
class Cell:
    """One run of a grid: a canonical expression, a seed, the folder, and what `rlzoo train` is called with."""

    objective: str
    seed: int
    folder: RunFolder
    config: Config
    words: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """The cells of a folder. `objectives` maps canonical expressions to how they were asked for."""

    folder: Path
    objectives: dict[str, str]
    seeds: tuple[int, ...]
    words: tuple[str, ...]
    baseline: str = ""

    @cached_property
    def cells(self) -> list[Cell]:
        """Seed by seed, so that a grid that is not finished can compare what it has."""
        shared: Config = load_config(with_embedded_default(self.words))
        return [self._cell(shared, objective, seed) for seed in self.seeds for objective in self.objectives]

    def _cell(self, shared: Config, objective: str, seed: int) -> Cell:
        name = slug(objective)
        if len(name) > 100:
            name = f"{name[:90]}-{blake2b(objective.encode(), digest_size=4).hexdigest()}"
        folder = RunFolder(self.folder / f"{name}-{seed}")
        config = replace(shared, objective=objective, seed=seed, output=str(folder.path), resume=True)
        own = (f"objective={objective}", f"seed={seed}", f"output={folder.path}", "resume=true")
        return Cell(objective, seed, folder, config, (*self.words, *own))

    def save(self) -> None:
        """Writes `grid.json`."""
        values = {"objectives": self.objectives, "seeds": self.seeds, "words": self.words, "baseline": self.baseline}
        write_json(self.folder / GRID, values)

    @classmethod
    def load(cls, folder: Path) -> "Grid":
        """Reads what `save` wrote. Raises UserError if that is not there."""
        try:
            values = json.loads((folder / GRID).read_text(encoding="utf-8"))
            seeds, words = tuple(values["seeds"]), tuple(values["words"])
            return cls(folder, dict(values["objectives"]), seeds, words, values["baseline"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder / GRID} is not readable: {error}") from None

    def joined(self) -> "Grid":
        """With the objectives and seeds that are in the folder from earlier calls."""
        if not (self.folder / GRID).exists():
            return self
        old = Grid.load(self.folder)
        objectives = old.objectives | self.objectives
        seeds = tuple(sorted({*old.seeds, *self.seeds}))
        return Grid(self.folder, objectives, seeds, self.words, self.baseline or old.baseline)

    def check(self) -> None:
        """Finds what would stop a run before any starts. Raises UserError or ObjectiveError."""
        for cell in self.cells:
            if cell.seed == self.seeds[0]:
                check(cell.config)
            if cell.folder.config.exists():
                _check_continues(cell.config, cell.folder)


def _check_continues(config: Config, folder: RunFolder) -> None:
    try:
        check_same(config, folder)
    except UserError as error:
        raise UserError(f"{error}; another output= keeps both grids") from None
    done = len(read_json_lines(folder.metrics))
    if done > config.train.steps:
        raise UserError(f"train.steps={config.train.steps}, but the run in {folder.path} has {done} steps already")


def read_grid(words: Sequence[str], ablated: Sequence[str] = ()) -> tuple[Grid, int]:
    """The grid that a command line asks for, and how many runs it wants at a time.

    Raises UserError or ObjectiveError for what cannot be compared.
    """
    own, settings = GridConfig(), []
    for word in words:
        key = word.partition("=")[0]
        if key in ("objective", "seed", "resume"):
            raise UserError(f"{word!r} has no effect on a grid; objectives are words of their own, seeds are seeds=0,1")
        settings += [word] if is_setting(word) and key not in _OWN_KEYS else []
    own = load_config([listed(word, "seeds") for word in words if word.partition("=")[0] in _OWN_KEYS], GridConfig)
    written = [word for word in words if not is_setting(word)]
    objectives = _objectives(written, ablated)
    baseline = own.baseline or (ablated[0] if ablated and not written else "")
    grid = Grid(
        Path(own.output), objectives, tuple(own.seeds), (*DEFAULTS, *settings), baseline and str(parse(baseline))
    ).joined()
    _check(own, grid)
    return grid, own.jobs


_OWN_KEYS = {key.name for key in fields(GridConfig)}


def is_setting(word: str) -> bool:
    """Whether a word is a file or key=value; in an expression, any `=` stands behind a bracket."""
    return word.endswith((".yaml", ".yml")) or re.match(r"[\w.]+=", word) is not None


def _objectives(written: Sequence[str], ablated: Sequence[str]) -> dict[str, str]:
    found = {str(parse(word)): word for word in written}
    for expression in ablated:
        for objective, name in leave_one_out(expression):
            found.setdefault(str(objective), name)
    if not found:
        raise UserError("there is nothing to compare; name objectives, for example: rlzoo compare grpo dapo stapo")
    return found


def _check(own: GridConfig, grid: Grid) -> None:
    if not own.seeds or len(set(own.seeds)) < len(own.seeds) or min(own.seeds) < 0:
        raise UserError(f"seeds={own.seeds} must be one or more different numbers, none below 0")
    if own.jobs < 1:
        raise UserError(f"jobs={own.jobs} must be at least 1")
    if grid.baseline and grid.baseline not in grid.objectives:
        raise UserError(f"baseline={grid.baseline} is not among what is compared: {', '.join(grid.objectives)}")


def leave_one_out(expression: str) -> Iterator[tuple[Objective, str]]:
    """An expression's objective, then those without one part, with a name each; what must stay is passed over."""
    whole = parse(expression)
    yield whole, expression
    for part in whole.parts:
        try:
            yield _without(whole, part), f"{expression} without {part.name}"
        except ObjectiveError:
            continue


def _without(whole: Objective, part: Part) -> Objective:
    """Drops the term that adds the part, or else adds one that removes it."""
    base, *others = read_terms(str(whole))
    added = read_terms(part.term())[0].name
    kept = [term for term in others if not (term.sign == "+" and term.name == added)]
    text = write_term(base.name, base.parameters)
    text += "".join(term.sign + write_term(term.name, term.parameters) for term in kept)
    return parse(text if len(kept) < len(others) else f"{text}-{part.name}")


def command_of(config: Config, objective: str, seeds: Sequence[int]) -> str:
    """What to type to train an objective again, with every setting that is not the default."""
    settings = [word for word in words_of(config) if word.partition("=")[0] not in _OF_A_CELL]
    words = [objective, f"seeds={','.join(map(str, seeds))}", *settings, "output=runs/again"]
    return shlex.join(["rlzoo", "compare", *words])


_OF_A_CELL = ("objective", "seed", "output", "resume", "checkpoint.every", "checkpoint.keep")
