"""What a comparison consists of: objectives times seeds, a run folder for each, everything else the same."""

import itertools
import logging
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from objectives import Objective, parse
from rlzoo.comparing.ablation import leave_one_out
from rlzoo.comparing.default_folder import GRID, default_folder, schedule_held
from rlzoo.comparing.grid_words import SCHEDULE, read_grid_words, with_schedule
from rlzoo.comparing.sweep import Sweep, variants
from rlzoo.config import Config, flat, load_config, words_of
from rlzoo.config.recorded import RecordedKeys, check_recorded
from rlzoo.config.schema import GRID_IDENTITY, MACHINE
from rlzoo.errors import UserError, nearest
from rlzoo.experiment.check import check
from rlzoo.experiment.claim import check_same
from rlzoo.experiment.identity import Code, Recorded, digest, folder_name, has_changed, read_objective, unique_labels
from rlzoo.experiment.machine import our_version
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_file, write_json
from rlzoo.records import name_inside, text
from rlzoo.source import digest as source_digest

_logger = logging.getLogger(__name__)
NO_SWEEP = Sweep()
Identity = tuple[str, tuple[tuple[str, float | str], ...]]
"""What a row is known by: the key of its objective, and the settings that it alone has."""


@dataclass(frozen=True)
class RowName:
    """What a row is called."""

    objective: str
    """Its shortest expression, told apart from those of the other rows."""
    asked: str = ""
    """How it was asked for; of an ablation the whole."""
    without: str = ""
    """Of an ablation, what was taken out of the whole."""
    settings: tuple[str, ...] = ()
    """Those that it alone has."""

    @property
    def before_without(self) -> str:
        """All but what was taken out."""
        return " ".join([self.asked if self.without else self.objective, *self.settings])

    @property
    def alias(self) -> str:
        """What else it is called: how it was asked for, or what an ablation amounts to; empty if there is nothing."""
        if self.without:
            return self.objective
        return "" if self.asked.replace(" ", "") == self.objective else self.asked

    def __str__(self) -> str:
        ablated = f"{self.asked} without {self.without}" if self.without else self.objective
        return " ".join([ablated, *self.settings])


@dataclass(frozen=True)
class GridEntry(Recorded):
    """An objective of a grid, with the settings that it alone has."""

    name: str
    """Of its folders, before the seed; settled when it was first asked for."""
    asked: str
    """How it was first asked for; of an ablation the whole."""
    sweep: Sweep = NO_SWEEP
    without: str = ""
    """Of an ablation, the part that was taken out of the whole."""

    @classmethod
    def of(cls, objective: Objective, asked: str, sweep: Sweep = NO_SWEEP, without: str = "") -> "GridEntry":
        """An objective that is asked for now."""
        name = folder_name(str(RowName(asked, asked, without, sweep.words)), objective.key)
        return cls(objective.key, str(objective), name, asked, sweep, without)

    @property
    def suffix(self) -> str:
        """Of the folders of one that there are runs of with other code."""
        return f"-{source_digest([self.key, self.code.short if self.code else ''])[:8]}"

    @property
    def first_name(self) -> str:
        """Of its folders before its code was changed."""
        return self.name.removesuffix(self.suffix)

    def row_name(self, shown: str) -> RowName:
        """With the shortest expression as it is shown beside others."""
        return RowName(shown, self.asked, self.without, self.sweep.words)

    @property
    def row(self) -> tuple[str, ...]:
        """How it was asked for, whatever its code means by now."""
        return self.asked, self.without, *self.sweep.words

    @property
    def identity(self) -> Identity:
        """What no two of a grid have in common."""
        return self.key, self.sweep.meant


@dataclass(frozen=True)
class GridCell:
    """One run of a grid: an objective, a seed, the folder, and what `rlzoo train` is called with."""

    entry: GridEntry
    row: RowName
    seed: int
    folder: RunFolder
    config: Config
    words: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """The cells of a folder; no two objectives have the same key, or the same name."""

    folder: Path
    objectives: tuple[GridEntry, ...]
    seeds: tuple[int, ...]
    words: tuple[str, ...]
    baseline: str = ""
    """An expression."""
    up_to: int = 0
    """How many seeds an objective may get where they decide something; 0 if all have the same."""
    further: tuple[tuple[str, int], ...] = ()
    """Names of entries and seeds that were added so."""
    earlier: tuple[GridEntry, ...] = ()
    """Entries whose runs are of earlier code: they are kept, and no part of the comparison."""
    left_out: tuple[GridEntry, ...] = ()
    """Entries that are no part of it until they are asked for again; their runs are kept."""

    @cached_property
    def cells(self) -> list[GridCell]:
        """Seed by seed, so that a grid that is not finished can compare what it has."""
        shown = unique_labels(self.objectives)
        entries = {entry.name: entry for entry in self.objectives}
        wanted = [*itertools.product(self.seeds, entries), *((seed, name) for name, seed in self.further)]
        rows = {name: entry.row_name(shown[entry.key]) for name, entry in entries.items()}
        return [self._cell(entries[name], rows[name], seed) for seed, name in dict.fromkeys(wanted) if name in entries]

    def seeds_of(self, name: str) -> list[int]:
        """The seeds of an entry."""
        return [cell.seed for cell in self.cells if cell.entry.name == name]

    def with_seeds(self, counts: Mapping[str, int]) -> "Grid":
        """With so many seeds for the entries of these names, the lowest that they do not have."""
        added = []
        for name, count in counts.items():
            seeds = self.seeds_of(name)
            free = (seed for seed in itertools.count() if seed not in seeds)
            added += [(name, seed) for seed in itertools.islice(free, max(0, count - len(seeds)))]
        return replace(self, further=(*self.further, *sorted(added, key=lambda pair: pair[1])))

    def _cell(self, entry: GridEntry, row: RowName, seed: int) -> GridCell:
        folder = RunFolder(self.folder / name_inside(f"{entry.name}-{seed}"))
        config = replace(self._configured(entry), seed=seed, output=str(folder.path), resume=True)
        of_cell = (f"objective={entry.expression}", f"seed={seed}", f"output={folder.path}", "resume=true")
        return GridCell(entry, row, seed, folder, config, (*self.words, *entry.sweep.words, *of_cell))

    def _configured(self, entry: GridEntry) -> Config:
        return replace(self._configurations[(*self.words, *entry.sweep.words)], objective=entry.expression)

    @cached_property
    def _configurations(self) -> dict[tuple[str, ...], Config]:
        """By words; to read one takes a while."""
        every = {(*self.words, *entry.sweep.words) for entry in self.objectives}
        return {words: load_config(words) for words in every}

    def save(self) -> None:
        """Writes `grid.json`."""
        entries = {"objectives": self.objectives, "earlier": self.earlier, "left_out": self.left_out}
        saved = {name: [asdict(entry) for entry in several] for name, several in entries.items()}
        values = {"seeds": self.seeds, "words": self.words, "baseline": self.baseline, "up_to": self.up_to}
        write_json(self.folder / GRID, {**saved, **values, "further": self.further})

    @classmethod
    def load(cls, folder: Path) -> "Grid":
        """Reads what `save` wrote. Raises UserError if that is not there."""
        try:
            values = read_json_file(folder / GRID)
            seeds, words = tuple(map(int, values["seeds"])), tuple(map(text, values["words"]))
            further, up_to = tuple((str(key), int(seed)) for key, seed in values["further"]), int(values["up_to"])
            entries = _once(map(_read_entry, values["objectives"]))
            earlier = (_as_earlier(_read_entry(saved), entries) for saved in values.get("earlier", ()))
            others = tuple(earlier), tuple(map(_read_entry, values.get("left_out", ())))
            return cls(folder, entries, seeds, words, text(values["baseline"]), up_to, further, *others)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{folder / GRID} is not readable: {error}") from None

    def configured(self) -> list[dict[str, Any]]:
        """The keys of its runs, and its baseline's."""
        rows = [asdict(self._configurations[(*self.words, *entry.sweep.words)]) for entry in self.objectives]
        expressions = [*(entry.expression for entry in self.objectives), self.baseline]
        return [*map(flat, rows), *({"objective": expression} for expression in expressions)]

    def joined(self, trust: Sequence[str] = ()) -> "Grid":
        """With the objectives and seeds that are in the folder from earlier calls.

        Raises UserError for code from outside that they alone name and `trust` does not cover.
        """
        if not (self.folder / GRID).exists():
            check_recorded([], trust=trust)
            return self
        old = Grid.load(self.folder)
        every = replace(old, words=self.words, objectives=(*old.objectives, *old.left_out, *old.earlier))
        recorded = [RecordedKeys(self.folder / GRID, keys) for keys in every.configured()]
        check_recorded(recorded, self.configured(), trust)
        if self.up_to and old.up_to and self.up_to != old.up_to:
            raise UserError(
                f"seeds=auto(up_to={self.up_to}), but the grid in {self.folder} looks at its rows as up_to={old.up_to} "
                f"has it, and changing that on the way would make verdicts err; further seeds can be given by number"
            )
        asked = {name for entry in self.objectives for name in (entry.identity, entry.row)}
        again = [entry for entry in old.left_out if asked & {entry.identity, entry.row}]
        return replace(
            self,
            objectives=_once([*old.objectives, *again, *self.objectives]),
            seeds=tuple(sorted({*old.seeds, *self.seeds})),
            baseline=self.baseline or old.baseline,
            up_to=self.up_to or old.up_to,
            further=old.further,
            earlier=old.earlier,
            left_out=tuple(entry for entry in old.left_out if entry not in again),
        )

    def without(self, names: Sequence[str]) -> "Grid":
        """Without some rows, as the table calls them or as they were asked for. Raises UserError for none of them."""
        entries = (*self.objectives, *self.left_out)
        shown = unique_labels(entries)
        rows = [entry.row_name(shown[entry.key]) for entry in entries]
        left_out = list(self.left_out)
        for name in names:
            matching = [
                entry for entry, row in zip(entries, rows, strict=True) if name.replace(" ", "") in _called(row)
            ]
            if not matching:
                there = nearest(name, map(str, rows)) or f"; they are {', '.join(map(str, rows))}"
                raise UserError(f"leave_out={name} is no row of the grid in {self.folder}{there}")
            left_out += [entry for entry in matching if entry not in left_out]
        kept = tuple(entry for entry in self.objectives if entry not in left_out)
        if not kept:
            raise UserError(f"leave_out={','.join(names)} leaves no row of the grid in {self.folder}; keep one")
        return replace(self, objectives=kept, left_out=tuple(left_out))

    def tell_of_others(self, asked: Iterable[GridEntry]) -> None:
        """Says which rows nobody has asked for now that are trained as well, as they are of an earlier call."""
        named = {entry.identity for entry in asked}
        waiting = [cell for cell in self.cells if not cell.folder.finished(cell.config)]
        message = "%s is trained as well, as an earlier call asked for it; leave_out='%s' leaves it out"
        for row in dict.fromkeys(str(cell.row) for cell in waiting if cell.entry.identity not in named):
            _logger.warning(message, row, row)

    def of_todays_code(self) -> "Grid":
        """An entry whose runs are of other code from outside, or another key, gives way to one in new folders.

        The runs are kept, and taken up again once the code is what it was. What was not recorded counts as the same.
        """
        entries, earlier = dict[Identity, GridEntry](), {entry.name: entry for entry in self.earlier}
        for entry in self.objectives:
            objective = parse(entry.expression)
            now = replace(entry, key=objective.key, code=Code.of(self._configured(entry), objective))
            same = [other for other in earlier.values() if (other.identity, other.code) == (now.identity, now.code)]
            if change := self._change(entry, now):
                earlier[entry.name] = entry
                now = replace(now, name=f"{entry.first_name}{now.suffix}")
                anew = "those of this code are taken up" if same else f"{entry.asked} is trained anew"
                _logger.warning("%s: the runs in %s are kept, and %s", change, self.folder / f"{entry.name}-SEED", anew)
            entries.setdefault(now.identity, same[0] if same else now)
        names = {entry.name for entry in entries.values()}
        kept_names = names | {entry.name for entry in self.left_out}
        further = tuple((name, seed) for name, seed in self.further if name in kept_names)
        kept = tuple(entry for entry in earlier.values() if entry.name not in names)
        return replace(self, objectives=tuple(entries.values()), further=further, earlier=kept)

    def _change(self, entry: GridEntry, now: GridEntry) -> str:
        """In words how the code of an entry that has runs differs from that of now; empty if it does not."""
        assert now.code is not None
        if not any(cell.folder.has_steps for cell in self.cells if cell.entry.name == entry.name):
            return ""
        if now.key != entry.key:
            return has_changed(entry.expression, now.key, entry.key, f"the grid in {self.folder}")
        change = now.code.changes(entry.code)
        if entry.code is None and now.code.sources:
            message = (
                "%s does not say in a way that can be compared which code of %s it is of; it counts as that of today"
            )
            _logger.warning(message, self.folder / f"{entry.name}-SEED", ", ".join(now.code.sources))
        return change and f"{change} has changed"

    def warn_of_versions(self) -> None:
        """Says that runs of the grid are of other versions of rlzoo than those that are trained now will be."""
        held = [read_objective(cell.folder.path).versions for cell in self.cells if cell.folder.has_steps]
        others = sorted({versions[-1] for versions in held if versions} - {our_version()})
        if others:
            message = "runs of the grid in %s are of rlzoo %s, and those trained now of %s; the leaderboard says so"
            _logger.warning(message, self.folder, ", ".join(others), our_version())

    def check(self) -> None:
        """Finds what would stop a run before any starts. Raises UserError or ObjectiveError."""
        for cell in self.cells:
            if cell.seed == self.seeds[0]:
                check(cell.config)
            if cell.folder.holds_run:
                _check_continues(cell)


def _called(row: RowName) -> set[str]:
    """What a row is called, without spaces; of an ablation, how the whole was asked for is no name."""
    return {name.replace(" ", "") for name in (str(row), row.objective, "" if row.without else row.asked) if name}


def _once(entries: Iterable[GridEntry]) -> tuple[GridEntry, ...]:
    """Each objective once; one whose name another has already gets a digest behind it."""
    by_identity: dict[Identity, GridEntry] = {}
    for entry in entries:
        if entry.identity not in by_identity:
            is_taken = entry.name in {other.name for other in by_identity.values()}
            by_identity[entry.identity] = replace(entry, name=f"{entry.name}-{_digest(entry)}") if is_taken else entry
    return tuple(by_identity.values())


def _digest(entry: GridEntry) -> str:
    """Of its identity: a long name says no more than how it begins."""
    swept = " ".join(entry.sweep.words)
    return blake2b(f"{entry.key} {swept}".encode(), digest_size=4).hexdigest() if swept else digest(entry.key)


def _read_entry(saved: Mapping[str, Any]) -> GridEntry:
    """An objective of `grid.json`."""
    read: dict[str, Any] = {"sweep": Sweep.read(saved["sweep"]), "code": Code.read(saved.get("code"))}
    return GridEntry(**{**{name: text(value) for name, value in saved.items() if name not in read}, **read})


def _as_earlier(entry: GridEntry, objectives: Iterable[GridEntry]) -> GridEntry:
    """An entry of earlier code; of what no digest tells from the present one, its code is not known.

    Versions that knew objectives by numbers as well gave way to new entries where these numbers changed.
    """
    is_like_present = any((it.identity, it.code) == (entry.identity, entry.code) for it in objectives)
    return replace(entry, code=None) if is_like_present else entry


def _check_continues(cell: GridCell) -> None:
    try:
        check_same(cell.config, cell.folder, cell.entry.code)
    except UserError as error:
        raise UserError(f"{error}; another output= keeps both grids") from None


def read_grid(words: Sequence[str], ablated: Sequence[str] = ()) -> tuple[Grid, int]:
    """The grid that a command line asks for, and how many runs it wants at a time.

    Raises UserError or ObjectiveError for what cannot be compared.
    """
    asked = read_grid_words(words)
    objectives = _objectives(asked.expressions, ablated, asked.swept)
    settings = with_schedule(asked.settings)
    folder = Path(asked.keys.output) if asked.keys.output else default_folder(asked.settings)
    if settings != asked.settings:
        settings = (*asked.settings, schedule_held(folder) or SCHEDULE)
    is_ablation = bool(ablated) and not asked.expressions and not (folder / GRID).exists()
    baseline = asked.keys.baseline or (next(variants(ablated[0], ()))[0] if is_ablation else "")
    baseline = baseline and str(parse(baseline))
    grid = Grid(folder, objectives, tuple(asked.keys.seeds), settings, baseline, asked.up_to)
    grid = grid.joined([path for path in asked.trust if f"trust={path}" not in settings])
    grid = grid.without(asked.keys.leave_out).of_todays_code()
    _check(grid)
    grid.warn_of_versions()
    grid.tell_of_others(objectives)
    return grid, asked.keys.jobs


def _objectives(written: Sequence[str], ablated: Sequence[str], swept: Sequence[str]) -> tuple[GridEntry, ...]:
    entries = [GridEntry.of(parse(text), text, sweep) for word in written for text, sweep in variants(word, swept)]
    entries += [
        GridEntry.of(objective, text, sweep, without)
        for expression in ablated
        for text, sweep in variants(expression, swept)
        for objective, without in leave_one_out(text)
    ]
    if not entries:
        raise UserError("there is nothing to compare; name objectives, for example: rlzoo compare grpo dapo stapo")
    return _once(entries)


def _check(grid: Grid) -> None:
    if grid.baseline and parse(grid.baseline).key not in {entry.key for entry in grid.objectives}:
        compared = ", ".join(unique_labels(grid.objectives).values())
        if parse(grid.baseline).key in {entry.key for entry in grid.left_out}:
            raise UserError(
                f"leave_out: {grid.baseline} is the baseline of the grid in {grid.folder}; give another, baseline=ROW; "
                f"there are {compared}"
            )
        raise UserError(f"baseline={grid.baseline} is not among what is compared: {compared}")


def command_of(config: Config, objective: str, seeds: Sequence[int]) -> str:
    """What to type to train an objective again, with every setting that is not the default."""
    words = [objective, f"seeds={','.join(map(str, seeds))}", *settings_of(config), "output=runs/again"]
    return shlex.join(["rlzoo", "compare", *words])


def settings_of(config: Config) -> list[str]:
    """The words of a comparison with the settings of a run, as far as they hold for others as well."""
    words = words_of(config, GRID_IDENTITY | {MACHINE})
    is_said = any(word.startswith("train.schedule=") for word in words)
    return words if is_said else [*words, f"train.schedule={config.train.schedule}"]
