"""Watches what long runs hold: memory, open files, threads, and the processor's seconds for a token.

python -m benchmarks.soak embedded          # 2,000 steps of the embedded model
python -m benchmarks.soak smollm2           # 200 of SmolLM2-135M-Instruct
python -m benchmarks.soak                   # the tables of what was watched
"""

import csv
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import psutil
import torch

from rlzoo.files import json_lines, write_text

FOLDER = Path(__file__).parent
POLL = 1.0
"""Seconds between two looks."""
QUARTERS = 4
FLAT, STEADY = "2 %", "5 %"
"""How much the last quarter may differ from the second: what a run holds, and what a token costs."""
LIMITS = {"cpu_milliseconds_a_token": STEADY, "yardstick": "", "yardsticks_a_token": STEADY}
"""What a second of the processor does depends on who else uses the machine, and on nothing here."""

# At so small a rate responses keep their length: some costs are a step's, and more for each of few tokens.
EMBEDDED = (
    "objective=stapo+clip_higher",
    "train.steps=2000",
    "train.learning_rate=1e-9",
    "rollout.prompts_per_step=8",
    "rollout.responses_per_prompt=4",
    "train.minibatches_per_step=2",
    "evaluation.problems=16",
    "evaluation.samples=2",
    "evaluation.every=100",
)
SMOLLM2 = (
    "configs/smollm2.yaml",
    "objective=stapo+clip_higher",
    "train.steps=200",
    "train.learning_rate=1e-9",
    "model.precision=float32",
    "rollout.prompts_per_step=2",
    "rollout.responses_per_prompt=4",
    "evaluation.problems=4",
    "evaluation.samples=2",
    "evaluation.every=20",
    "checkpoint.every=50",
)
RUNS = {"embedded": EMBEDDED, "smollm2": SMOLLM2}


@dataclass(frozen=True)
class Look:
    """What a run and its children hold at a moment."""

    step: float
    """Steps done."""
    tokens: float
    """Response tokens sampled in them."""
    seconds: float
    """Since the run was started."""
    cpu_seconds: float
    """Of all processes together."""
    memory: float
    """MiB resident in the process that trains."""
    memory_of_children: float
    """MiB resident in the graders and the process that they are forked from."""
    files: float
    """Open in all processes."""
    threads: float
    """Of all processes."""
    yardstick: float = math.nan
    """Milliseconds of the processor that a fixed calculation took this process at the time."""


def main(words: Sequence[str]) -> None:
    """Watches the runs that are named, then writes the tables of all that were watched."""
    for name in words:
        watch(name)
    done = [name for name in RUNS if _path_of(name).exists()]
    write_text(FOLDER / "results" / "soak.md", "\n".join(table(name, read(name)) for name in done))


def watch(name: str) -> None:
    """Trains, and writes a line for every look. Raises CalledProcessError for a run that fails."""
    with tempfile.TemporaryDirectory() as folder, _path_of(name).open("w", newline="") as file:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "rlzoo", "train", *RUNS[name], f"output={run}"]
        writer = csv.DictWriter(file, [field.name for field in fields(Look)], lineterminator="\n")
        writer.writeheader()
        started = time.monotonic()
        process = psutil.Popen(command, stdout=subprocess.DEVNULL)
        while process.poll() is None:
            tokens = [line["tokens"] for line in json_lines(run / "timings.jsonl")]
            held = _held([process, *process.children(recursive=True)]) if tokens else None
            if held is not None:
                done = {"step": len(tokens), "tokens": sum(tokens), "seconds": _since(started)}
                writer.writerow({**done, **held, "yardstick": round(yardstick(), 3)})
                file.flush()
            time.sleep(POLL)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)


def _held(processes: Sequence[psutil.Process]) -> dict[str, float] | None:
    """None where one of them ended meanwhile."""
    try:
        memory = [process.memory_info().rss / 2**20 for process in processes]
        times = [process.cpu_times() for process in processes]
        return {
            "cpu_seconds": round(sum(it.user + it.system for it in times), 2),
            "memory": round(memory[0], 2),
            "memory_of_children": round(sum(memory[1:]), 2),
            "files": sum(process.num_fds() for process in processes),
            "threads": sum(process.num_threads() for process in processes),
        }
    except psutil.NoSuchProcess:
        return None


def yardstick() -> float:
    """What the same calculation takes: where others use the machine, a second of its processor does less."""
    values, weights = torch.ones(64, 128), torch.full((128, 128), 1 / 128)
    before = time.process_time()
    for _ in range(200):
        values = torch.softmax(values @ weights, -1)
    return 1000 * (time.process_time() - before)


def _since(moment: float) -> float:
    return round(time.monotonic() - moment, 2)


def _path_of(name: str) -> Path:
    return FOLDER / "raw" / f"{name}.csv"


def read(name: str) -> list[Look]:
    """The looks at a run while it trained; what comes after its last step is another kind of work."""
    with _path_of(name).open(newline="") as file:
        rows: list[dict[str, Any]] = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    looks = [Look(**row) for row in rows]
    steps = next(word for word in RUNS[name] if word.startswith("train.steps=")).removeprefix("train.steps=")
    return [look for look in looks if look.step < int(steps)]


def quarters(looks: Sequence[Look]) -> list[dict[str, float]]:
    """By quarter of the steps: the mean of what was held, and thousandths of a processor's second for a token."""
    steps = looks[-1].step
    found = []
    for number in range(QUARTERS):
        within = [it for it in looks if number * steps < QUARTERS * it.step <= (number + 1) * steps]
        first, last = within[0], within[-1]
        held = ("memory", "memory_of_children", "files", "threads")
        means = {name: sum(asdict(it)[name] for it in within) / len(within) for name in held}
        milliseconds = 1000 * (last.cpu_seconds - first.cpu_seconds) / (last.tokens - first.tokens)
        found.append({**means, "cpu_milliseconds_a_token": milliseconds})
        if not math.isnan(looks[0].yardstick):
            fixed = sum(it.yardstick for it in within) / len(within)
            found[-1] |= {"yardstick": fixed, "yardsticks_a_token": milliseconds / fixed}
    return found


def _change(second: float, last: float) -> str:
    return f"{last / second - 1:+.2%}" if second else "-"


def table(name: str, looks: Sequence[Look]) -> str:
    """Quarters side by side in Markdown, and how much the last differs from the second."""
    lines = [
        f"## {name}: {looks[-1].step:,.0f} steps, {looks[-1].tokens:,.0f} tokens, {looks[-1].seconds / 60:.0f} minutes",
        "",
        "| mean of | first | second | third | last | last against second | at most |",
        "|---|---|---|---|---|---|---|",
    ]
    by_quarter = quarters(looks)
    for key in by_quarter[0]:
        values = [quarter[key] for quarter in by_quarter]
        limit = LIMITS.get(key, FLAT)
        shown = " | ".join(f"{value:,.4g}" if value < 1000 else f"{value:,.0f}" for value in values)
        lines.append(f"| {key.replace('_', ' ')} | {shown} | {_change(values[1], values[3])} | {limit} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main(sys.argv[1:])
