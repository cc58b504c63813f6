"""Runs the command of each case, and says what is wrong with how it ends.

Cases run in a forked process, a batch in each, so that a segmentation fault, a call that never returns, and memory
that grows are seen and named; what does not end itself is killed, and the next process goes on with the next case.
"""

import errno
import logging
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from benchmarks.fuzz.mutations import SCRIPT
from benchmarks.fuzz.received import OUTSIDE, SECRET
from benchmarks.fuzz.seeds import Seeds
from benchmarks.fuzz.subjects import Subject
from tests.report.stand_in import Hub, Stand, serving

LIMIT = 20.0
"""Seconds of the CPU that a case may take, so that a busy machine gives the same verdict."""
LONGEST_WAIT = 240.0
"""Seconds after which its process is killed: it waits for something, or is in a library that hears no signal."""
MEMORY = 4 * 2**30
"""Bytes of address space beyond what a process has at its start."""
LONGEST = 1500
"""Characters that what is said of a mistake may have."""
BATCH = 250
_TRAP = "from pathlib import Path\nPath(__file__).with_name('marker').touch()\n"
_TRAPS = ("theirs", "backports", "brotlicffi", "cython", "scikits", "sksparse", "uarray", "yaml_env_tag")
"""Modules in the working directory: what a file names, and what libraries ask for where it is installed."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
_UNIX = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Case:
    """One file: its number and the seed make it, always in the same way."""

    number: int
    seed: int
    subject: Subject

    def make(self, seeds: Seeds, folder: Path) -> list[str]:
        """Writes its files; returns the words of the command."""
        folder.mkdir(parents=True)
        if self.subject.kind != "typed":
            for name in _TRAPS:
                (folder / f"{name}.py").write_text(_TRAP)
        return self.subject.make(seeds, folder, Random(f"{self.seed} {self.subject.name} {self.number}"))


@dataclass(frozen=True)
class Verdict:
    """How a case ended."""

    number: int
    subject: str
    words: Sequence[str]
    status: int | None
    """None if the command did not end."""
    seconds: float
    wrong: str
    """What should not be; empty if all is well."""
    said: str


@dataclass(frozen=True)
class Sandbox:
    """Where cases may write: each into its own folder, and libraries into a home and a folder for temporary files."""

    folder: Path

    def of_case(self, case: Case) -> Path:
        """Its folder, so deep that what climbs out of it by `../..` is seen."""
        return self.folder / "cases" / "of" / f"{case.number:05d}"

    @property
    def environment(self) -> dict[str, str]:
        """What has libraries write there, and nothing look for a network."""
        (self.folder / "said").mkdir(parents=True, exist_ok=True)
        names = {"HOME": "home", "TMPDIR": "tmp", "HF_HOME": "home", "MPLCONFIGDIR": "home", "XDG_CACHE_HOME": "home"}
        places = {name: str(self.folder / place) for name, place in names.items()}
        for place in places.values():
            Path(place).mkdir(parents=True, exist_ok=True)
        quiet = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_TOKEN": Hub.token}
        return {**places, **quiet, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}

    def strangers(self) -> list[str]:
        """What lies where nothing should."""
        expected = {self.folder: {"cases", "home", "tmp", "seeds", "said"}, self.folder / "cases": {"of"}}
        return [str(it) for place, names in expected.items() for it in place.iterdir() if it.name not in names]


class _TimeUp(BaseException):
    """The limit of a case is over."""


def run_cases(cases: Sequence[Case], seeds: Seeds, sandbox: Sandbox) -> Iterator[Verdict]:
    """The verdicts, each as it is known."""
    done = 0
    while done < len(cases):
        for verdict in _forked(cases[done : done + BATCH], seeds, sandbox):
            done += 1
            yield verdict


def _forked(cases: Sequence[Case], seeds: Seeds, sandbox: Sandbox) -> Iterator[Verdict]:
    """Those of the cases that one process comes to; the last of them may have ended it."""
    reader, writer = _UNIX.Pipe(duplex=False)
    process = _UNIX.Process(target=_child, args=(cases, seeds, sandbox, writer))
    process.start()
    writer.close()
    for case in cases:
        try:
            wrong = "" if reader.poll(LONGEST_WAIT) else f"hangs for {LONGEST_WAIT:g} s"
            if not wrong:
                yield reader.recv()
                continue
        except EOFError:
            process.join()
            wrong = f"ends the process with {process.exitcode}"
        process.kill()
        process.join()
        yield _lost(case, seeds, sandbox, wrong)
        return
    process.join()


def _lost(case: Case, seeds: Seeds, sandbox: Sandbox, wrong: str) -> Verdict:
    shutil.rmtree(sandbox.of_case(case), ignore_errors=True)
    words = case.make(seeds, sandbox.of_case(case))
    shutil.rmtree(sandbox.of_case(case))
    return Verdict(case.number, case.subject.name, words, None, LIMIT, wrong, "")


def _child(cases: Sequence[Case], seeds: Seeds, sandbox: Sandbox, verdicts: Connection) -> None:
    """Runs cases one after the other, and sends how each ended."""
    said = sandbox.folder / "said" / str(os.getpid())
    output = os.open(said, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    with Path("/proc/self/statm").open() as file:
        limit = int(file.read().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    sys.dont_write_bytecode = True  # a package that is imported late is compiled where it lies
    writes = Writes(sandbox.folder)
    sys.addaudithook(writes)
    with serving() as hub:
        for case in cases:
            verdicts.send(_verdict(case, seeds, sandbox, writes, said, hub))
            os.truncate(output, 0)
    said.unlink()


class Writes:
    """An audit hook that keeps the first path outside which somebody wrote, removed or made something.

    What is written through a link is written where that leads to.
    """

    def __init__(self, allowed: Path) -> None:
        self.allowed = (str(allowed.resolve()), "/dev/", f"/proc/{os.getpid()}/")
        self.outside = ""

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
        if not (is_write or event in _CHANGES) or self.outside:
            return
        for path in arguments[: 2 if event in ("os.rename", "os.link") else 1]:
            if isinstance(path, str | bytes | os.PathLike):
                whole = _where_it_leads(os.fsdecode(path), through=event == "open")
                if not whole.startswith(self.allowed) or "/seeds/" in whole or f"/{OUTSIDE}/" in whole:
                    self.outside = f"{event} {whole}"


def _where_it_leads(path: str, through: bool) -> str:
    """Without links in it; the last part may be one, unless it is gone `through` as well."""
    whole = os.path.abspath(path)
    if "\x00" in whole:
        return whole
    folder, name = os.path.split(whole)
    return os.path.realpath(whole) if through else os.path.join(os.path.realpath(folder), name)


def _verdict(case: Case, seeds: Seeds, sandbox: Sandbox, writes: Writes, said: Path, hub: Mapping[str, Any]) -> Verdict:
    folder = sandbox.of_case(case)
    shutil.rmtree(folder, ignore_errors=True)
    words = case.make(seeds, folder)
    writes.outside, Stand.hub = "", Hub()
    started = time.monotonic()
    with _as_alone(folder), pushing(words, hub):
        status, wrong = _run(words)
    seconds = time.monotonic() - started
    text = said.read_text(encoding="utf-8", errors="replace")
    wrong = wrong or unclear(status, text) or (writes.outside and f"writes outside: {writes.outside}")
    if (folder / "marker").exists():
        wrong = "runs a module that a file names"
    if any(f"<script>{SCRIPT}".encode() in page.read_bytes() for page in folder.rglob("*.html")):
        wrong = "has a script of a file's in a page"
    if told := [name for name, content in Stand.hub.files.items() if SECRET.encode() in content]:
        wrong = f"uploads what lies outside, in {told}"
    if strangers := sandbox.strangers():
        wrong = f"leaves {strangers}"
        for path in strangers:
            os.rename(path, sandbox.folder / "tmp" / f"stranger-{case.number}")
    shutil.rmtree(folder)
    return Verdict(case.number, case.subject.name, words, status, seconds, wrong, text[-4000:])


@contextmanager
def pushing(words: Sequence[str], settings: Mapping[str, Any]) -> Iterator[None]:
    """While a command runs: if it pushes, the stand-in with these settings is the hub."""
    from huggingface_hub import constants

    settings = settings if words[0] == "push" else {}
    before = {name: getattr(constants, name) for name in settings}
    vars(constants).update(settings)
    try:
        yield
    finally:
        vars(constants).update(before)


@contextmanager
def _as_alone(folder: Path) -> Iterator[None]:
    """While a command runs: what it does to this process is taken back."""
    path, here, environment = list(sys.path), Path.cwd(), dict(os.environ)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        sys.path[:] = path
        sys.modules.pop("theirs", None)
        os.environ.clear()
        os.environ.update(environment)
        logging.disable(logging.NOTSET)


def _run(words: list[str]) -> tuple[int | None, str]:
    """The exit status of a command, and what is wrong with how it ended."""
    from rlzoo.commands import main

    signal.signal(signal.SIGPROF, _time_up)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        return main(words), ""
    except SystemExit as ended:
        return int(ended.code or 0), ""
    except _TimeUp:
        return None, f"takes more than {LIMIT:g} s of the CPU"
    except BaseException as error:
        return None, f"raises {_where(error)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.flush()
        sys.stderr.flush()


def _time_up(number: int, frame: FrameType | None) -> None:
    raise _TimeUp


def _where(error: BaseException) -> str:
    """Its kind, and the innermost line of ours that it came through."""
    place, step = "", error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if re.search(r"/(rlzoo|objectives)/", name):
            place = f"{Path(name).name}:{step.tb_lineno}"
        step = step.tb_next
    return f"{type(error).__name__} at {place}: {str(error)[:200]!r}"


def unclear(status: int | None, text: str) -> str:
    """What is wrong with a status and what was said with it; empty if it is clear."""
    if status not in (0, 1, 2):
        return f"has status {status}"
    if "Traceback (most recent call last)" in text:
        return "shows a traceback"
    steering = next(
        (it for it in text if unicodedata.category(it) in ("Cc", "Cf", "Cs") and it not in "\n\t\r\u200d"), ""
    )
    if steering:
        return f"shows {steering!r} as it is"
    lines = [line for line in text.splitlines() if line.startswith("rlzoo: ")]
    if status == 2 and len(lines) != 1:
        return f"says {len(lines)} lines of a mistake"
    if status == 1 and len(lines) > 1:
        return f"says {len(lines)} lines of a fault"
    if lines and len(lines[0]) > LONGEST:
        return f"says a line of {len(lines[0])} characters"
    if status == 2 and os.strerror(errno.ENOMEM) in text:
        return "says too little memory of a mistake"
    return ""
