"""What a comparison consists of: objectives times seeds, a run folder for each, everything else the same."""

import itertools
import logging
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from objectives import Objective, ObjectiveError, parse
from rlzoo.comparing.grid_words import (
    GRID,
    RowWords,
    as_recorded,
    default_folder,
    meant,
    read_grid_words,
    settings_of,
    with_schedule,
)
from rlzoo.config import Config, flat, load_config
from rlzoo.config.recorded import RecordedKeys, check_recorded
from rlzoo.config.words import inlined
from rlzoo.errors import UserError
from rlzoo.experiment.check import ONE_UPDATE, TWO_UPDATES, acting, check
from rlzoo.experiment.claim import check_same
from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.identity import Code, Recorded, digest, folder_name, has_changed, read_objective, unique_labels
from rlzoo.experiment.machine import our_version
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_file, write_json
from rlzoo.records import name_inside, reading, text
from rlzoo.source import digest as source_digest

_logger = logging.getLogger(__name__)
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
    settings: tuple[str, ...] = ()
    """Those that it alone has, `train.learning_rate=1e-5`; an expression does not show them."""
    without: str = ""
    """Of an ablation, the part that was taken out of the whole."""

    @classmethod
    def of(cls, objective: Objective, asked: RowWords, without: str = "") -> "GridEntry":
        """An objective that is asked for now."""
        text = asked.expression
        name = folder_name(str(RowName(text, text, without, asked.settings)), objective.key)
        return cls(objective.key, str(objective), name, text, asked.settings, without)

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> "GridEntry":
        """An entry of `grid.json`, also as versions wrote it that had lists of values."""
        settings = saved["settings"] if "settings" in saved else saved["sweep"]["words"]
        read: dict[str, Any] = {"settings": tuple(map(text, settings)), "code": Code.read(saved.get("code"))}
        others = {name: text(value) for name, value in saved.items() if name not in (*read, "sweep")}
        return cls(**{**others, **read})

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
        return RowName(shown, self.asked, self.without, self.settings)

    @property
    def row(self) -> tuple[str, ...]:
        """How it was asked for, independent of what its code means now."""
        return self.asked, self.without, *self.settings

    @property
    def identity(self) -> Identity:
        """What no two of a grid have in common."""
        return self.key, meant(self.settings)


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
    joined_to: str = field(default="", compare=False)
    """What `grid.json` said when this grid was joined to it."""

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
        """The grid with `counts[name]` seeds for each named entry. The lowest free seeds are added."""
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
        return GridCell(entry, row, seed, folder, config, (*self.words, *entry.settings, *of_cell))

    def _configured(self, entry: GridEntry) -> Config:
        return replace(self._configurations[(*self.words, *entry.settings)], objective=entry.expression)

    @cached_property
    def _configurations(self) -> dict[tuple[str, ...], Config]:
        """By words; to read one takes a while."""
        every = {(*self.words, *entry.settings) for entry in self.objectives}
        return {words: load_config(words) for words in every}

    def save(self) -> None:
        """Writes `grid.json`."""
        entries = {"objectives": self.objectives, "earlier": self.earlier}
        saved = {name: [asdict(entry) for entry in several] for name, several in entries.items()}
        values = {"seeds": self.seeds, "words": self.words, "baseline": self.baseline, "up_to": self.up_to}
        write_json(self.folder / GRID, {**saved, **values, "further": self.further})

    @classmethod
    def load(cls, folder: Path) -> "Grid":
        """Reads what `save` wrote. Raises UserError if that is not there."""
        try:
            values = read_json_file(folder / GRID)
            seeds, words = tuple(map(int, values["seeds"])), as_recorded(tuple(map(text, values["words"])))
            further, up_to = tuple((str(key), int(seed)) for key, seed in values["further"]), int(values["up_to"])
            entries = _once(map(GridEntry.read, values["objectives"]))
            earlier = tuple(_as_earlier(GridEntry.read(saved), entries) for saved in values.get("earlier", ()))
            return cls(folder, entries, seeds, words, text(values["baseline"]), up_to, further, earlier)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{folder / GRID} is not readable: {error}") from None

    def configured(self) -> list[dict[str, Any]]:
        """The keys of its runs, and its baseline's."""
        rows = [asdict(self._configurations[(*self.words, *entry.settings)]) for entry in self.objectives]
        expressions = [*(entry.expression for entry in self.objectives), RowWords.read(self.baseline).expression]
        return [*map(flat, rows), *({"objective": expression} for expression in expressions)]

    def joined(self, trust: Sequence[str] = ()) -> "Grid":
        """With the objectives and seeds that are in the folder from earlier calls.

        Raises UserError for code from outside that they alone name and `trust` does not cover.
        """
        written = self._written()
        if not written:
            check_recorded([], trust=trust)
            return self
        old = Grid.load(self.folder)
        every = replace(old, words=self.words, objectives=(*old.objectives, *old.earlier))
        recorded = [RecordedKeys(self.folder / GRID, keys) for keys in every.configured()]
        check_recorded(recorded, self.configured(), trust)
        if self.up_to and old.up_to and self.up_to != old.up_to:
            raise UserError(
                f"seeds=auto(up_to={self.up_to}), but the grid in {self.folder} looks at its rows as up_to={old.up_to} "
                f"has it, and changing that on the way would make verdicts err; further seeds can be given by number"
            )
        return replace(
            self,
            objectives=_once([*old.objectives, *self.objectives]),
            seeds=tuple(sorted({*old.seeds, *self.seeds})),
            baseline=self.baseline or old.baseline,
            up_to=self.up_to or old.up_to,
            further=old.further,
            earlier=old.earlier,
            joined_to=written,
        )

    def up_to_date(self) -> "Grid":
        """With what another call has written into the folder since this one read it."""
        if self._written() == self.joined_to:
            return self
        grid = self.joined().of_todays_code()
        grid.check()
        return grid

    def _written(self) -> str:
        """What is in the folder's `grid.json`; empty if there is none."""
        path = self.folder / GRID
        with reading(path):
            return path.read_text(encoding="utf-8") if path.exists() else ""

    def warn_of_other_rows(self, asked: Iterable[GridEntry]) -> None:
        """Warns about rows from earlier calls that will be trained too."""
        named = {entry.identity for entry in asked}
        waiting = [cell for cell in self.cells if not cell.folder.finished(cell.config)]
        for row in dict.fromkeys(str(cell.row) for cell in waiting if cell.entry.identity not in named):
            _logger.warning("%s is trained as well: an earlier call asked for it in this output=", row)

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
                then = "those of this code are taken up" if same else f"{entry.asked} is trained again"
                _logger.warning("%s: the runs in %s are kept, and %s", change, self.folder / f"{entry.name}-SEED", then)
            entries.setdefault(now.identity, same[0] if same else now)
        names = {entry.name for entry in entries.values()}
        further = tuple((name, seed) for name, seed in self.further if name in names)
        kept = tuple(entry for entry in earlier.values() if entry.name not in names)
        return replace(self, objectives=tuple(entries.values()), further=further, earlier=kept)

    def without_twins(self, asked: Iterable[GridEntry]) -> "Grid":
        """Less what is asked for now and cannot differ from another row under the settings of the grid.

        A warning says why, and what would let it. The baseline stays, and so does what has runs.
        """
        new, first = {entry.identity for entry in asked}, dict[Identity, GridEntry]()
        baseline = self.baseline and identity_of(RowWords.read(self.baseline))
        kept = list[GridEntry]()
        for entry in sorted(self.objectives, key=lambda entry: entry.identity != baseline):
            config, objective = self._configured(entry), parse(entry.expression)
            twin = first.setdefault((acting(config, objective).key, meant(entry.settings)), entry)
            has_runs = any(cell.folder.has_steps for cell in self.cells if cell.entry.name == entry.name)
            if twin is entry or has_runs or entry.identity not in new:
                kept.append(entry)
                continue
            _logger.warning(
                "%s is not trained: it is %s, as %s; %s lets %s act",
                *(entry.expression, twin.expression, ONE_UPDATE, TWO_UPDATES, ", ".join(objective.idle_on_policy)),
            )
        return replace(self, objectives=tuple(entry for entry in self.objectives if entry in kept))

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
        before: Experiment | None = None
        for cell in self.cells:
            if cell.seed == self.seeds[0]:
                before = check(cell.config, before)
            if cell.folder.holds_run:
                _check_continues(cell)


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
    settings = " ".join(entry.settings)
    return blake2b(f"{entry.key} {settings}".encode(), digest_size=4).hexdigest() if settings else digest(entry.key)


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


# ---- from words ------------------------------------------------------------------------------------------------------


def read_grid(words: Sequence[str], ablated: Sequence[str] = ()) -> tuple[Grid, int]:
    """The grid that a command line asks for, and how many runs it wants at a time.

    Raises UserError or ObjectiveError for what cannot be compared.
    """
    asked = read_grid_words(words, ablated)
    entries = _entries(asked.rows, [RowWords.read(text) for text in ablated])
    settings = with_schedule(inlined(asked.settings))
    folder = asked.keys.folder or default_folder(asked.settings)
    is_ablation = bool(ablated) and not asked.rows and not (folder / GRID).exists()
    baseline = asked.keys.baseline or (ablated[0] if is_ablation else "")
    grid = Grid(folder, entries, tuple(asked.keys.seeds), settings, _in_full(baseline), asked.up_to)
    grid = grid.joined([path for path in asked.trust if f"trust={path}" not in settings]).of_todays_code()
    grid = grid.without_twins(entries)
    _check_baseline(grid)
    grid.warn_of_versions()
    grid.warn_of_other_rows(entries)
    return grid, asked.keys.jobs


def _entries(rows: Sequence[RowWords], ablated: Sequence[RowWords]) -> tuple[GridEntry, ...]:
    entries = [GridEntry.of(parse(row.expression), row) for row in rows]
    entries += [
        GridEntry.of(objective, row, without) for row in ablated for objective, without in leave_one_out(row.expression)
    ]
    if not entries:
        raise UserError("there is nothing to compare; name objectives, for example: rlzoo compare grpo dapo stapo")
    return _once(entries)


def leave_one_out(expression: str) -> Iterator[tuple[Objective, str]]:
    """An expression's objective, then those without one part, with its name; what must stay is passed over."""
    whole = parse(expression)
    yield whole, ""
    for part in whole.parts:
        try:
            yield whole.without(part.name), part.name
        except ObjectiveError:
            continue


def _in_full(baseline: str) -> str:
    """The row that is the baseline, with its expression in full; empty if none is named."""
    row = RowWords.read(baseline)
    return str(RowWords(str(parse(row.expression)), row.settings)) if baseline else ""


def identity_of(row: RowWords) -> Identity:
    """What a row that is asked for is known by; nothing is imported for it."""
    return parse(row.expression, imports=False).key, meant(row.settings)


def choose_baseline(asked: str, rows: Mapping[Identity, str], among: str) -> Identity:
    """The row that `asked` names, or else that of grpo without settings, of grpo, or the first. Rows have their names.

    Raises UserError if it is not among them, or if it is the name of several.
    """
    wanted = identity_of(RowWords.read(asked or "grpo"))
    of_key = [row for row in rows if row[0] == wanted[0]]
    if wanted in rows:
        return wanted
    if not asked:
        return next(iter([*of_key, *rows]))
    if of_key and not wanted[1]:
        several = ", ".join(f"baseline='{rows[row]}'" for row in of_key)
        raise UserError(f"baseline={asked} is the name of several rows; write {several}")
    raise UserError(f"baseline={asked} is not among {among}: {', '.join(map(_as_typed, rows.values()))}")


def _as_typed(name: str) -> str:
    """The name of a row as `baseline=` takes it: of an ablation `dapo-clip_higher`."""
    return name.replace(" without ", "-")


def _check_baseline(grid: Grid) -> None:
    shown = unique_labels(grid.objectives)
    rows = {entry.identity: str(entry.row_name(shown[entry.key])) for entry in grid.objectives}
    choose_baseline(grid.baseline, rows, "what is compared")


def command_of(config: Config, row: RowWords, seeds: Sequence[int]) -> str:
    """What to type to train a row again, with every setting that is not the default; its own stay in its word."""
    own = {word.partition("=")[0] for word in row.settings}
    shared = [word for word in settings_of(config) if word.partition("=")[0] not in own]
    words = [str(row), f"seeds={','.join(map(str, seeds))}", *shared, "output=runs/again"]
    return shlex.join(["rlzoo", "compare", *words])
