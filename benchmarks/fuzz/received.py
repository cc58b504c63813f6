"""Cases of whole folders that somebody handed over, in which one thing is changed, is a link, or should not be there.

What is not changed are copies, or links to files that no command writes.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from benchmarks.fuzz.mutations import bytes_changed, json_changed, lines_changed
from benchmarks.fuzz.seeds import SUITE, Seeds
from rlzoo.experiment.progress import step_of
from rlzoo.model.pretrained import MANIFEST, write_manifest

Change = Callable[[bytes, Random], bytes]
Words = list[str]
Make = Callable[[Seeds, Path, Random], Words]
OUTSIDE = "outside"
"""The folder beside what was handed over into which nothing may be written."""
SECRET = "what-is-not-theirs"
"""What lies there and may not be uploaded."""
_LARGEST_COPY = 100_000
_LAST = "grpo-0/checkpoints/step-000002"
_LACKING = 0.03
"""How often a file is not there at all."""


def copied(source: Path, folder: Path, changed: str, change: Change, random: Random) -> Path:
    """One of the seeds' folders in that of a case, one file of it changed."""
    target = folder / source.name
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            copy.mkdir(exist_ok=True)
        elif str(path.relative_to(source)) == changed:
            copy.write_bytes(change(path.read_bytes(), random))
        elif path.stat().st_size > _LARGEST_COPY:
            os.link(path, copy)
        else:
            shutil.copyfile(path, copy)
    return target


def within(name: str, file: str, change: Change, *commands: Words) -> Make:
    """A file of one of the seeds' folders is changed, or is not there."""

    def make(seeds: Seeds, folder: Path, random: Random) -> Words:
        source = seeds.folder / name
        found = next(source.glob(file)).relative_to(source)
        copy = copied(source, folder, str(found), change, random)
        if random.random() < _LACKING:
            (copy / found).unlink()
        return random.choice(commands)

    return make


def piped(seeds: Seeds, folder: Path, random: Random) -> Words:
    """A run in which a pipe that nothing is ever written to is in place of a file."""
    files = sorted(path for path in seeds.run.rglob("*") if path.is_file())
    file = random.choice(files).relative_to(seeds.grid)
    copy = copied(seeds.grid, folder, "", bytes_changed, random) / file
    copy.unlink()
    os.mkfifo(copy)
    run = str(Path("grid/grpo-0"))
    return random.choice((["leaderboard", run, "output=board"], ["doctor", run], ["inspect", run], ["eval", run]))


def checkpoint(name: str, change: Change, *commands: Words, of: str = "grid", at: str = _LAST) -> Make:
    """A file of a checkpoint is changed, and mostly the list of checksums with it: otherwise all stop there."""

    def make(seeds: Seeds, folder: Path, random: Random) -> Words:
        copy = copied(seeds.folder / of, folder, f"{at}/{name}", change, random) / at
        if random.random() < _LACKING:
            (copy / name).unlink(missing_ok=True)
        if random.random() < 0.85 and name != MANIFEST:
            write_manifest(copy, step_of(copy))
        return random.choice(commands)

    return make


_PUSHED: dict[str, Change] = {
    "grpo-0/config.yaml": bytes_changed,
    "grpo-0/objective.json": json_changed,
    "grpo-0/environment.json": json_changed,
    "grpo-0/evaluation/step-000002-T1-p1.jsonl": lines_changed,
    f"{_LAST}/config.json": json_changed,
    f"{_LAST}/training/manifest.json": json_changed,
}
"""What is uploaded, or decides what is."""


def pushed(seeds: Seeds, folder: Path, random: Random) -> Words:
    """A run whose model, card and configuration are uploaded; what these are made of is changed."""
    file = random.choice(sorted(_PUSHED))
    grid = copied(seeds.grid, folder, file, _PUSHED[file], random)
    if random.random() < 0.5 and not file.endswith(MANIFEST):
        write_manifest(grid / _LAST, step_of(grid / _LAST))
    odd = random.choice(("a", "../x", "a/b/c", "", "é/\x1b[31m", "-x/y"))
    name = "someone/model" if random.random() < 0.8 else odd
    return ["push", "grid/grpo-0", "--", name] if name.startswith("-") else ["push", "grid/grpo-0", name]


def suite(file: str, change: Change) -> Make:
    """A folder of the suite of which one file is changed, with an experiment of the user's."""

    def make(seeds: Seeds, folder: Path, random: Random) -> Words:
        shutil.copyfile(seeds.files / "coin.py", folder / "coin.py")
        return within("suite", file, change, [*SUITE, "output=suite"])(seeds, folder, random)

    return make
