"""Draws mutations of executed lines, tries the tests on each, and shows which are caught.

`python -m benchmarks.mutations.mutate draw`, `run` or `table`; README.md beside this says what for.
"""

import argparse
import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.mutations.kinds import Edit, Source, edits, parses

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("objectives", "rlzoo")
SKIPPED = ("objectives/adapters/", "rlzoo/rollout/vllm")
"""How the paths begin of what is tested in environments of its own."""
PYTEST = (sys.executable, "-m", "pytest", "-x", "--numprocesses=0", "-p", "no:cacheprovider")


@dataclass(frozen=True)
class Mutation:
    """A drawn edit. Offsets are of UTF-8 bytes; the two lines are whole ones, several where the segment has several."""

    id: str
    package: str
    path: str
    line: int
    kind: str
    before: str
    after: str
    line_before: str
    line_after: str
    start: int
    end: int
    spare: bool
    """Whether it is run only in place of one that is declared equivalent."""


@dataclass(frozen=True)
class Result:
    """What the tests said of a mutation: `by` is the first test that failed, "hang", or what pytest said last.

    `stage` is the last that was run; empty if there are no tests such as `--words` asks for.
    """

    mutation: Mutation
    caught: bool
    by: str
    stage: str
    seconds: float
    commit: str


# ---- draw ------------------------------------------------------------------------------------------------------------


def executed_lines(file: Path, root: Path) -> dict[str, set[int]]:
    """Path from `root` on -> its lines that ran, from a data file of coverage."""
    try:
        from coverage import CoverageData
    except ImportError:
        raise SystemExit("draw reads a file of coverage: pip install coverage, in any folder on PYTHONPATH") from None
    if not file.is_file():
        raise SystemExit(f"{file} does not exist")
    data = CoverageData(basename=str(file))
    data.read()
    return {os.path.relpath(name, root): set(data.lines(name) or ()) for name in data.measured_files()}


def draw(options: argparse.Namespace) -> None:
    """Prints mutations of each package, its spares last, as JSON lines."""
    ran, random = executed_lines(options.coverage, options.measured_in), Random(options.seed)
    for package in PACKAGES:
        listed = git(ROOT, "ls-files", f"{package}/*.py").split()
        paths = sorted(it for it in listed if it in ran and not it.startswith(tuple(options.skip)))
        sources = {path: Source((ROOT / path).read_bytes()) for path in paths}
        found = {(path, line): it for path in paths for line, it in edits(sources[path], ran[path]).items()}
        print(f"{package}: {len(found)} lines of {len({path for path, _ in found})} files", file=sys.stderr)
        drawn = 0
        for path, line in random.sample(sorted(found), len(found)):
            if drawn == options.per_package + options.spare:
                break
            source = sources[path]
            if valid := [edit for edit in found[path, line] if parses(source, edit)]:
                drawn += 1
                name, spare = f"{package[0]}{drawn:02}", drawn > options.per_package
                kind = random.choice(sorted({edit.kind for edit in valid}))
                edit = random.choice([edit for edit in valid if edit.kind == kind])
                print(json.dumps(asdict(mutation(source, edit, name, path, spare))))


def mutation(source: Source, edit: Edit, name: str, path: str, spare: bool) -> Mutation:
    start, end = edit.start, edit.end
    return Mutation(
        id=name,
        package=path.partition("/")[0],
        path=path,
        line=source.line(start),
        kind=edit.kind,
        before=source.data[start:end].decode(),
        after=edit.after,
        line_before=source.lines(start, end),
        line_after=source.edited(start, end, edit.after).lines(start, start + len(edit.after.encode())),
        start=start,
        end=end,
        spare=spare,
    )


# ---- run -------------------------------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def environment(clone: Path) -> dict[str, str]:
    """PYTHONPATH comes before the finder of an editable installation, also for what the tests start elsewhere."""
    return {**os.environ, "PYTHONPATH": str(clone), "OMP_NUM_THREADS": "1"}


def new_clone(clone: Path) -> Path:
    """A clone of HEAD, whose packages are imported."""
    shutil.rmtree(clone, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, clone], check=True)
    command = [sys.executable, "-c", "import objectives, rlzoo; print(objectives.__file__, rlzoo.__file__, sep='\\n')"]
    said = subprocess.run(command, cwd="/", env=environment(clone), check=True, stdout=subprocess.PIPE, text=True)
    if any(not Path(line).is_relative_to(clone) for line in said.stdout.splitlines()):
        raise SystemExit(f"{clone} is not what is imported, but {said.stdout.split()}")
    return clone


def rooms(path: str) -> list[str]:
    """Where a file's own tests are; empty if nowhere."""
    package, *rest = path.split("/")
    if package == "objectives":
        return ["tests/objectives"]
    place = f"tests/{rest[0]}" if len(rest) > 1 else f"tests/test_{rest[0]}"
    return [place] if (ROOT / place).exists() else []


def stages(own: Sequence[str], options: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """What is run until a test fails: a name, and words for pytest. Nothing if it is a room that is not there."""
    if "{room}" in options.words and not own:
        return
    if options.words:
        yield "words", shlex.split(options.words.replace("{room}", " ".join(own)))
        return
    marker = ["-m", options.marker] if options.marker else []
    if own:
        yield "room", [*marker, *own]
    yield "rest", [*marker, *(f"--ignore={place}" for place in own)]


async def failing_test(clone: Path, words: Sequence[str], limit: float, log: Path) -> str:
    """The first test that fails, or how else pytest ended; empty if all pass, or none is selected."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(*PYTEST, *words),
            cwd=clone,
            env=environment(clone),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # so that all which the tests started can be ended with them
        )
        try:
            status = await asyncio.wait_for(process.wait(), limit)
        except TimeoutError:
            return "hang"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    said = log.read_text(encoding="utf-8", errors="replace").strip()
    if status in (0, 5):
        return ""
    if status == 4 and "while loading conftest" not in said:
        raise SystemExit(f"pytest takes no {shlex.join(words)}: {said[-500:]}")
    failed = re.search(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", said, re.MULTILINE)
    return failed.group(1) if failed else f"status {status}: {said.splitlines()[-1] if said else ''}"


async def tried(clone: Path, mutated: Mutation, options: argparse.Namespace) -> Result:
    """Tries the tests on a mutation, and cleans the clone of it and of all that they left, compiled files among it."""
    file, begin = clone / mutated.path, time.monotonic()
    source, by, stage = Source(file.read_bytes()), "", ""
    if source.lines(mutated.start, mutated.end) != mutated.line_before:
        raise SystemExit(f"{mutated.id} was drawn from another {mutated.path} than is committed")
    file.write_bytes(source.edited(mutated.start, mutated.end, mutated.after).data)
    try:
        for stage, words in stages(rooms(mutated.path), options):
            log = options.scratch / f"{mutated.id}-{stage}.log"
            if by := await failing_test(clone, words, options.limit, log):
                break
    finally:
        cleaned(clone)
    seconds, commit = round(time.monotonic() - begin, 1), git(clone, "rev-parse", "HEAD")[:12]
    return Result(mutated, bool(by), by, stage, seconds, commit)


def cleaned(clone: Path) -> None:
    git(clone, "checkout", "--quiet", "--", ".")
    git(clone, "clean", "-ffdxq")


async def baseline(clone: Path, todo: Sequence[Mutation], options: argparse.Namespace) -> None:
    """Refuses to go on if the tests fail without a mutation, or need more than half of the time limit."""
    own = sorted({place for it in todo for place in rooms(it.path)}) if options.words else []
    for stage, words in stages(own, options):
        begin = time.monotonic()
        if by := await failing_test(clone, words, 7200, options.scratch / f"baseline-{stage}.log"):
            raise SystemExit(f"without a mutation: {by}")
        cleaned(clone)
        print(f"baseline: {(seconds := time.monotonic() - begin):.0f} s", flush=True)
        if 2 * seconds > options.limit and not options.words:
            raise SystemExit(f"--limit {options.limit:.0f} is less than twice of that")


async def try_all(todo: Sequence[Mutation], options: argparse.Namespace) -> None:
    """Each in the next clone that is free; results are appended as they come."""
    clones: asyncio.Queue[Path] = asyncio.Queue()
    for job in range(options.jobs):
        clones.put_nowait(new_clone(options.scratch / f"job{job}"))
    if options.baseline:
        await baseline(options.scratch / "job0", todo, options)

    async def one(mutated: Mutation) -> None:
        clone = await clones.get()
        result = await tried(clone, mutated, options)
        clones.put_nowait(clone)
        with options.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        print(f"{mutated.id} {result.seconds:.0f} s: {result.by or 'survived'}", flush=True)

    await asyncio.gather(*(one(mutated) for mutated in todo))


def run(options: argparse.Namespace) -> None:
    """Tries what `--only`, `--survivors` or the number of mutations says, but those whose result is there."""
    drawn = [Mutation(**it) for it in json_lines(options.drawn)]
    done = {it.mutation.id for it in results(options.output)} if options.output.exists() else set()
    wanted = set(options.only) or {it.id for it in chosen(drawn, equivalents(options.equivalent))}
    if options.survivors:
        wanted &= {it.mutation.id for it in results(options.survivors) if not it.caught}
    options.scratch = options.scratch.resolve()
    options.scratch.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the tests of a stopped run end too
    asyncio.run(try_all([it for it in drawn if it.id in wanted - done], options))


# ---- table -----------------------------------------------------------------------------------------------------------


def json_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def results(file: Path) -> list[Result]:
    return [Result(**{**line, "mutation": Mutation(**line["mutation"])}) for line in json_lines(file)]


def equivalents(file: Path) -> dict[str, str]:
    """Id -> why no test could see the mutation, of a file whose lines are both."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {line.split()[0]: line.partition(" ")[2] for line in lines if line.strip()}


def chosen(drawn: Sequence[Mutation], equivalent: Iterable[str]) -> list[Mutation]:
    """As many of each package as are no spares: the first that are not equivalent."""
    found = []
    for package in PACKAGES:
        own = [it for it in drawn if it.package == package]
        wanted = sum(not it.spare for it in own)
        found += [it for it in own if it.id not in set(equivalent)][:wanted]
    return found


def cell(text: str) -> str:
    """Code on one line of a Markdown table, cut after 80 characters."""
    flat = " ".join(text.split()).replace("|", "\\|")
    return f"`{flat if len(flat) <= 80 else flat[:79] + '…'}`" if flat else "nothing"


def verdict(result: Result) -> str:
    by = result.by.replace("|", "\\|") or ("survived" if result.stage else "not tried")
    return f"{by} | {result.seconds:.0f}"


def table(options: argparse.Namespace) -> None:
    """Prints a row for each mutation, and what was caught of each package, with two columns for each file."""
    files = [{it.mutation.id: it for it in results(file)} for file in options.results]
    left_out = equivalents(options.equivalent)
    found = {name: it.mutation for file in reversed(files) for name, it in file.items() if name not in left_out}
    head = ["", "place", "line", "kind", "change", *(f"{it.stem} | s" for it in options.results)]
    print("| " + " | ".join(head) + " |\n" + "|---" * (5 + 2 * len(files)) + "|")
    for name, it in sorted(found.items()):
        told = [verdict(file[name]) if name in file else " | " for file in files]
        row = [name, f"{it.path}:{it.line}", cell(it.line_before), it.kind, f"{cell(it.before)} → {cell(it.after)}"]
        print("| " + " | ".join([*row, *told]) + " |")
    print("\n| caught | " + " | ".join(PACKAGES) + " |\n|---|" + "---|" * len(PACKAGES))
    for path, file in zip(options.results, files, strict=True):
        kept = [it for name, it in file.items() if name not in left_out and it.stage]
        own = [[it.caught for it in kept if it.mutation.package == package] for package in PACKAGES]
        print(f"| {path.stem} | " + " | ".join(f"{sum(it)} of {len(it)}" for it in own) + " |")
    for name in sorted(set(left_out) & {name for file in files for name in file}):
        print(f"\n{name} is left out: {left_out[name]}")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    of_draw, of_run, of_table = (commands.add_parser(it.__name__, help=it.__doc__) for it in (draw, run, table))
    for command, function in ((of_draw, draw), (of_run, run), (of_table, table)):
        command.set_defaults(do=function)
    for command in (of_run, of_table):
        command.add_argument("--equivalent", type=Path, default=ROOT / "benchmarks" / "mutations" / "equivalent.txt")
    of_draw.add_argument("--coverage", type=Path, default=ROOT / ".coverage")
    of_draw.add_argument("--measured-in", type=Path, default=ROOT, help="the checkout that was measured")
    of_draw.add_argument("--seed", type=int, required=True)
    of_draw.add_argument("--per-package", type=int, default=30)
    of_draw.add_argument("--spare", type=int, default=15, help="further ones of each package")
    of_draw.add_argument("--skip", nargs="*", default=SKIPPED, help="how paths begin that are left out")
    of_run.add_argument("drawn", type=Path)
    of_run.add_argument("--output", type=Path, required=True)
    of_run.add_argument("--jobs", type=int, default=2)
    of_run.add_argument("--only", nargs="*", default=[], metavar="ID")
    of_run.add_argument("--survivors", type=Path, help="results: only what survived there")
    of_run.add_argument("--marker", default="", help="for pytest's -m, instead of pyproject's")
    of_run.add_argument("--words", default="", help="for one pytest instead of two; {room} is the file's own tests")
    of_run.add_argument("--limit", type=float, default=1200, help="seconds of a stage")
    of_run.add_argument("--baseline", action="store_true", help="first without a mutation")
    of_run.add_argument("--scratch", type=Path, default=ROOT / "scratch" / "mutations", help="for clones and logs")
    of_table.add_argument("results", type=Path, nargs="+")
    return parser


if __name__ == "__main__":
    chosen_options = arguments().parse_args()
    chosen_options.do(chosen_options)
