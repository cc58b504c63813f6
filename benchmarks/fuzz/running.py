"""Draws the cases, and runs them in several processes, or as a user types them."""

import importlib
import json
import multiprocessing
import os
import pkgutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from benchmarks.fuzz.seeds import Seeds, make_files, make_seeds
from benchmarks.fuzz.subjects import SUBJECTS
from benchmarks.fuzz.trials import LONGEST_WAIT, Case, Sandbox, Verdict, pushing, run_cases, unclear
from tests.report.stand_in import serving

FILES = 10_000
LONGEST_WORD = 2**17
"""Bytes that Linux takes as one word of a command."""
_UNIX = multiprocessing.get_context("fork")


def cases_of(files: int, seed: int, subject: str = "", with_runs: bool = True) -> list[Case]:
    """So many cases, of each subject its share, numbered through in an order that mixes them."""
    subjects = [it for it in SUBJECTS if subject in it.name and (with_runs or it.kind != "run")]
    whole = sum(it.share for it in subjects)
    drawn = [subject for subject in subjects for _ in range(max(1, round(files * subject.share / whole)))]
    Random(seed).shuffle(drawn)
    return [Case(number, seed, subject) for number, subject in enumerate(drawn)]


def fuzz(cases: Sequence[Case], folder: Path, jobs: int = 1) -> Iterator[Verdict]:
    """The verdicts in the order of the cases' numbers."""
    sandbox, seeds = prepared(cases, folder)
    verdicts = []
    with (folder / "said" / "verdicts.jsonl").open("w") as kept:
        for verdict in _from_workers([cases[job::jobs] for job in range(jobs)], seeds, sandbox):
            verdicts.append(verdict)
            kept.write(json.dumps(asdict(verdict)) + "\n")
            kept.flush()
    return iter(sorted(verdicts, key=lambda it: it.number))


def _from_workers(shares: Sequence[Sequence[Case]], seeds: Seeds, sandbox: Sandbox) -> Iterator[Verdict]:
    """Verdicts as they come from one process for each share; RuntimeError where one of these fails."""
    workers: dict[Connection, BaseProcess] = {}
    for share in shares:
        receiver, sender = _UNIX.Pipe(duplex=False)
        workers[receiver] = _UNIX.Process(target=_work, args=(share, seeds, sandbox, sender))
        workers[receiver].start()
        sender.close()  # so that the pipe ends with its worker
    while workers:
        for receiver in wait(list(workers)):
            try:
                yield receiver.recv()
            except EOFError:
                worker = workers.pop(receiver)
                worker.join()
                if worker.exitcode:
                    raise RuntimeError("a worker of the fuzz failed; what is said above says why") from None


def _work(cases: Sequence[Case], seeds: Seeds, sandbox: Sandbox, sender: Connection) -> None:
    _load()
    for verdict in run_cases(cases, seeds, sandbox):
        sender.send(verdict)


def _load() -> None:
    """Imports what the commands need, so that no forked process need do it again.

    A module whose optional package is not installed is left out, as it is when a user runs the command.
    """
    import datasets  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import torch
    from transformers import Qwen3ForCausalLM  # noqa: F401

    import rlzoo

    for module in pkgutil.walk_packages(rlzoo.__path__, "rlzoo."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in ("rlzoo", "objectives"):
                raise
    torch.set_num_threads(1)


def prepared(cases: Sequence[Case], folder: Path) -> tuple[Sandbox, Seeds]:
    """The sandbox, in force for this process and those that it starts, with the seeds that the cases need."""
    sandbox, seeds = Sandbox(folder.resolve()), Seeds(folder.resolve() / "seeds")
    os.environ.update(sandbox.environment)
    make = make_seeds if any(case.subject.kind == "run" for case in cases) else make_files
    maker = _UNIX.Process(target=make, args=(seeds.folder,))
    maker.start()
    maker.join()
    if maker.exitcode:
        raise RuntimeError("the seeds cannot be made; what is said above says why")
    return sandbox, seeds


def show_case(case: Case, folder: Path) -> int:
    """Runs one case in this process, so that a debugger may look on, and leaves its folder."""
    sandbox, seeds = prepared([case], folder)
    words = case.make(seeds, sandbox.of_case(case))
    os.chdir(sandbox.of_case(case))
    print(f"{case.subject.name}: cd {sandbox.of_case(case)} && rlzoo {words}", flush=True)

    from rlzoo.commands import main

    with serving() as hub, pushing(words, hub):
        return main(words)


def by_command_line(cases: Sequence[Case], folder: Path, count: int) -> list[Verdict]:
    """Some of the cases as a user types them, each a process of its own."""
    sandbox, seeds = prepared(cases, folder)
    verdicts: list[Verdict] = []
    drawn = iter(Random(len(cases)).sample(list(cases), len(cases)))
    while len(verdicts) < count:
        case, started = next(drawn), time.monotonic()
        words = case.make(seeds, sandbox.of_case(case))
        if max(len(word.encode(errors="replace")) for word in words) >= LONGEST_WORD:
            continue
        command = [sys.executable, "-m", "rlzoo", *(word.replace("\x00", "") for word in words)]
        done = subprocess.run(
            command, cwd=sandbox.of_case(case), capture_output=True, timeout=LONGEST_WAIT, stdin=subprocess.DEVNULL
        )
        text = (done.stdout + done.stderr).decode(errors="replace")
        ran = (sandbox.of_case(case) / "marker").exists()
        wrong = "runs a module that lies there" if ran else unclear(done.returncode, text)
        verdicts.append(
            Verdict(case.number, case.subject.name, words, done.returncode, time.monotonic() - started, wrong, text)
        )
    return verdicts
