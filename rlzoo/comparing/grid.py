"""What a comparison consists of: objectives times seeds, a run folder for each, everything else the same."""

import itertools
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from objectives import Objective, ObjectiveError, parse
from rlzoo.comparing.default_folder import GRID, default_folder
from rlzoo.comparing.sweep import Sweep, variants
from rlzoo.comparing.words import read_grid_words
from rlzoo.config import Config, load_config, words_of
from rlzoo.errors import UserError
from rlzoo.experiment.claim import check_same
from rlzoo.experiment.experiment import check
from rlzoo.experiment.identity import Recorded, digest, folder_name, has_changed, told_apart
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import slug, write_json

NO_SWEEP = Sweep()
WITHOUT = " without "
"""Stands in the names of ablations."""


@dataclass(frozen=True)
class Entry(Recorded):
    """An objective of a grid, with the settings that it alone has."""

    name: str
    """Of its folders, before the seed; settled when it was first asked for."""
    asked: str
    """How it was first asked for."""
    sweep: Sweep = NO_SWEEP

    @classmethod
    def of(cls, objective: Objective, asked: str, sweep: Sweep = NO_SWEEP) -> "Entry":
        """An objective that is asked for now."""
        name = folder_name(" ".join([asked, *sweep.words]), objective.key)
        return cls(objective.key, str(objective), name, asked, sweep)

    @property
    def identity(self) -> tuple[str, tuple[tuple[str, float | str], ...]]:
        """What no two of a grid have in common."""
        return self.key, self.sweep.meant


@dataclass(frozen=True)
class Cell:
    """One run of a grid: an objective, a seed, the folder, and what `rlzoo train` is called with."""

    entry: Entry
    objective: str
    """For people: its shortest expression, told apart from those of the grid's other objectives."""
    seed: int
    folder: RunFolder
    config: Config
    words: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """The cells of a folder; no two objectives have the same key, or the same name."""

    folder: Path
    objectives: tuple[Entry, ...]
    seeds: tuple[int, ...]
    words: tuple[str, ...]
    baseline: str = ""
    """An expression."""
    up_to: int = 0
    """How many seeds an objective may get where they decide something; 0 if all have the same."""
    further: tuple[tuple[str, int], ...] = ()
    """Names of entries and seeds that were added so."""

    @cached_property
    def cells(self) -> list[Cell]:
        """Seed by seed, so that a grid that is not finished can compare what it has."""
        shown = told_apart(self.objectives)
        entries = {entry.name: entry for entry in self.objectives}
        wanted = [*itertools.product(self.seeds, entries), *((seed, name) for name, seed in self.further)]
        rows = {name: row_name(shown[it.key], it.asked, it.sweep) for name, it in entries.items()}
        return [self._cell(entries[name], rows[name], seed) for seed, name in dict.fromkeys(wanted)]

    def seeds_of(self, name: str) -> list[int]:
        """The seeds of an entry."""
        return [cell.seed for cell in self.cells if cell.entry.name == name]

    def with_seeds(self, counts: Mapping[str, int]) -> "Grid":
        """With so many seeds for the entries of these names, the lowest that they do not have."""
        added = []
        for name, count in counts.items():
            own = self.seeds_of(name)
            free = (seed for seed in itertools.count() if seed not in own)
            added += [(name, seed) for seed in itertools.islice(free, max(0, count - len(own)))]
        return replace(self, further=(*self.further, *sorted(added, key=lambda it: it[1])))

    def _cell(self, entry: Entry, shown: str, seed: int) -> Cell:
        folder = RunFolder(self.folder / f"{entry.name}-{seed}")
        words = (*self.words, *entry.sweep.words)
        shared: Config = self._configurations[words]
        config = replace(shared, objective=entry.expression, seed=seed, output=str(folder.path), resume=True)
        own = (f"objective={entry.expression}", f"seed={seed}", f"output={folder.path}", "resume=true")
        return Cell(entry, shown, seed, folder, config, (*words, *own))

    @cached_property
    def _configurations(self) -> dict[tuple[str, ...], Config]:
        """By words; to read one takes a while."""
        every = {(*self.words, *entry.sweep.words) for entry in self.objectives}
        return {words: load_config(words) for words in every}

    def save(self) -> None:
        """Writes `grid.json`."""
        objectives = [asdict(entry) for entry in self.objectives]
        values = {"objectives": objectives, "seeds": self.seeds, "words": self.words, "baseline": self.baseline}
        write_json(self.folder / GRID, {**values, "up_to": self.up_to, "further": self.further})

    @classmethod
    def load(cls, folder: Path) -> "Grid":
        """Reads what `save` wrote. Raises UserError if that is not there."""
        try:
            values = json.loads((folder / GRID).read_text(encoding="utf-8"))
            seeds, words = tuple(values["seeds"]), tuple(values["words"])
            further = tuple((str(key), int(seed)) for key, seed in values.get("further", ()))
            entries, up_to = _read_entries(values["objectives"]), int(values.get("up_to", 0))
            return cls(folder, entries, seeds, words, values["baseline"], up_to, further)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder / GRID} is not readable: {error}") from None

    def joined(self) -> "Grid":
        """With the objectives and seeds that are in the folder from earlier calls."""
        if not (self.folder / GRID).exists():
            return self
        old = Grid.load(self.folder)
        if self.up_to and old.up_to and self.up_to != old.up_to:
            raise UserError(
                f"seeds=auto(up_to={self.up_to}), but the grid in {self.folder} looks at its rows as up_to={old.up_to} "
                f"has it, and changing that on the way would make verdicts err; further seeds can be given by number"
            )
        objectives = _once([*old.objectives, *self.objectives])
        seeds = tuple(sorted({*old.seeds, *self.seeds}))
        up_to = self.up_to or old.up_to
        return Grid(self.folder, objectives, seeds, self.words, self.baseline or old.baseline, up_to, old.further)

    def check(self) -> None:
        """Finds what would stop a run before any starts. Raises UserError or ObjectiveError."""
        for cell in self.cells:
            if cell.seed == self.seeds[0]:
                check(cell.config)
            if cell.folder.holds_run:
                _check_continues(cell.config, cell.folder)


def _once(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Each objective once; one whose name another has already gets a digest behind it."""
    found: dict[object, Entry] = {}
    for entry in entries:
        if entry.identity not in found:
            is_taken = entry.name in {other.name for other in found.values()}
            found[entry.identity] = replace(entry, name=f"{entry.name}-{_digest(entry)}") if is_taken else entry
    return tuple(found.values())


def _digest(entry: Entry) -> str:
    """Of its identity: a long name says no more than how it begins."""
    swept = " ".join(entry.sweep.words)
    return blake2b(f"{entry.key} {swept}".encode(), digest_size=4).hexdigest() if swept else digest(entry.key)


def _read_entries(saved: Any) -> tuple[Entry, ...]:
    """The objectives of `grid.json`, which once had expressions -> how they were asked for, and named folders so."""
    if not isinstance(saved, Mapping):
        return _once(Entry(**{**it, "sweep": Sweep.read(it["sweep"]) if "sweep" in it else NO_SWEEP}) for it in saved)
    return _once(Entry(parse(it).key, it, _name_once_given(it), asked) for it, asked in saved.items())


def _name_once_given(expression: str) -> str:
    name = slug(expression)
    return name if len(name) <= 100 else f"{name[:90]}-{blake2b(expression.encode(), digest_size=4).hexdigest()}"


def _check_means_the_same(entry: Entry, folder: Path) -> None:
    objective = parse(entry.expression)
    if objective.key != entry.key:
        change = has_changed(entry.expression, objective.key, entry.key, f"the grid in {folder}")
        raise UserError(f"{change}; a grid keeps its objectives, another output= starts afresh")


def _check_continues(config: Config, folder: RunFolder) -> None:
    try:
        check_same(config, folder)
    except UserError as error:
        raise UserError(f"{error}; another output= keeps both grids") from None


def read_grid(words: Sequence[str], ablated: Sequence[str] = ()) -> tuple[Grid, int]:
    """The grid that a command line asks for, and how many runs it wants at a time.

    Raises UserError or ObjectiveError for what cannot be compared.
    """
    said = read_grid_words(words)
    objectives = _objectives(said.expressions, ablated, said.swept)
    folder = Path(said.own.output) if said.own.output else default_folder(said.settings)
    is_ablation = bool(ablated) and not said.expressions and not (folder / GRID).exists()
    baseline = said.own.baseline or (next(variants(ablated[0], ()))[0] if is_ablation else "")
    baseline = baseline and str(parse(baseline))
    grid = Grid(folder, objectives, tuple(said.own.seeds), said.settings, baseline, said.up_to).joined()
    _check(grid)
    return grid, said.own.jobs


def _objectives(written: Sequence[str], ablated: Sequence[str], swept: Sequence[str]) -> tuple[Entry, ...]:
    asked = [(parse(text), text, sweep) for word in written for text, sweep in variants(word, swept)]
    asked += [
        (objective, name, sweep)
        for expression in ablated
        for text, sweep in variants(expression, swept)
        for objective, name in leave_one_out(text)
    ]
    if not asked:
        raise UserError("there is nothing to compare; name objectives, for example: rlzoo compare grpo dapo stapo")
    return _once(Entry.of(*it) for it in asked)


def row_name(shown: str, asked: str, sweep: Sweep) -> str:
    """Of an objective, or of an ablation as it was asked for; with the settings that it alone has."""
    return " ".join([asked if WITHOUT in asked else shown, *sweep.words])


def _check(grid: Grid) -> None:
    for entry in grid.objectives:
        _check_means_the_same(entry, grid.folder)
    if grid.baseline and parse(grid.baseline).key not in {entry.key for entry in grid.objectives}:
        compared = ", ".join(told_apart(grid.objectives).values())
        raise UserError(f"baseline={grid.baseline} is not among what is compared: {compared}")


def leave_one_out(expression: str) -> Iterator[tuple[Objective, str]]:
    """An expression's objective, then those without one part, with a name each; what must stay is passed over."""
    whole = parse(expression)
    yield whole, expression
    for part in whole.parts:
        try:
            yield whole.without(part.name), f"{expression}{WITHOUT}{part.name}"
        except ObjectiveError:
            continue


def command_of(config: Config, objective: str, seeds: Sequence[int]) -> str:
    """What to type to train an objective again, with every setting that is not the default."""
    words = [objective, f"seeds={','.join(map(str, seeds))}", *settings_of(config), "output=runs/again"]
    return shlex.join(["rlzoo", "compare", *words])


def settings_of(config: Config) -> list[str]:
    """The words of a run that hold for others as well."""
    return [word for word in words_of(config) if word.partition("=")[0] not in _OF_A_CELL]


_OF_A_CELL = ("objective", "seed", "output", "resume", "checkpoint.every", "checkpoint.keep")
