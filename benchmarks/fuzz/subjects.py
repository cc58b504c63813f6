"""What is fuzzed: which file is changed, how, and the command that reads it.

A case is made in a folder of its own, which is the working directory of the command.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import pandas
import pyarrow.parquet

from benchmarks.fuzz.mutations import (
    ODD,
    bytes_changed,
    json_changed,
    lines_changed,
    safetensors_changed,
    template_changed,
    value_changed,
)
from benchmarks.fuzz.received import Change, Make, Words, checkpoint, piped, pushed, suite, within
from benchmarks.fuzz.seeds import Seeds
from objectives import names


@dataclass(frozen=True)
class Subject:
    """A kind of file, and how many of 10,000 cases are of it."""

    name: str
    share: int
    make: Make
    """Makes a case in a folder; returns the words of the command."""
    kind: Literal["typed", "file", "run"] = "run"
    """What a person types or writes, whose names are imported; a file; one of a run, which takes a while to make."""


# ---- settings and expressions ----------------------------------------------------------------------------------------

_TERMS = (*(name.name for name in names()), "nobody", "", "a.b:c", "theirs:bonus", "stapo stapo", "../x", "é")
_VALUES = ("0.2", "1", "-1", "0", "1e9", "nan", "inf", "true", "None", "'x'", "x", "", "[1]", "(1)", "1" * 400, "0x1")
_NAMES = ("tau_p", "alpha", "high", "low", "variant", "beta", "x", "__class__", "lambda", "1", "")
_SIGNS = ("+", "+", "+", "-", " + ", "--", "+-", "*", "(", ")", ",", "=", "\n", "\x00", "\x1b[31m", "\u202e")


def _expression(random: Random) -> str:
    text = random.choice(_TERMS)
    for _ in range(random.choice((0, 1, 2, 3, 8))):
        if random.random() < 0.5:
            pairs = [f"{random.choice(_NAMES)}={random.choice(_VALUES)}" for _ in range(random.choice((1, 2, 3)))]
            text += f"({','.join(pairs)})"
        text += random.choice(_SIGNS) + random.choice(_TERMS)
    if random.random() < 0.2:
        text = bytes_changed(text.encode(), random).decode(errors="replace")
    return text * random.choice((1, 1, 1, 1, 1, 1, 1, 300))


def expression(seeds: Seeds, folder: Path, random: Random) -> Words:
    """Terms, parameters and signs in any order."""
    text = _expression(random)
    return ["objectives", "--", text] if random.random() < 0.6 else ["train", f"objective={text}", "show=config"]


def key(seeds: Seeds, folder: Path, random: Random) -> Words:
    """A key of the recorded configuration with an odd value, as a word."""
    from rlzoo.config import Config
    from rlzoo.config.schema import keys

    name = random.choice([it.name for it in keys(Config)])
    value = random.choice(ODD)
    text = value if isinstance(value, str) else json.dumps(value)
    return [random.choice(("fit", "train")), f"{name}={text}", *_STOPPED]


_STOPPED = ("train.steps=-1",)
"""A last word that no training passes, so that a case that is valid trains nothing."""


def own_config(seeds: Seeds, folder: Path, random: Random) -> Words:
    """A YAML file that a user names."""
    source = seeds.files / random.choice(("own.yaml", "lines.yaml"))
    content = source.read_bytes()
    changed = json_changed(content, random) if source.name == "own.yaml" else bytes_changed(content, random)
    (folder / "my.yaml").write_bytes(changed)
    return random.choice((["fit", "my.yaml"], ["train", "my.yaml", "show=config"], ["task", "my.yaml", "seed=x"]))


def settings(seeds: Seeds, folder: Path, random: Random) -> Words:
    """The settings of another library."""
    name = random.choice(("trl", "verl"))
    (folder / "theirs.yaml").write_bytes(json_changed((seeds.files / f"{name}.json").read_bytes(), random))
    return ["objectives", "--from", name, "theirs.yaml", *random.choice(([], ["--json"]))]


# ---- data ------------------------------------------------------------------------------------------------------------


def _one_file(name: str, change: Change, *commands: Words) -> Make:
    """A case in which one of the seeds' files is changed."""

    def make(seeds: Seeds, folder: Path, random: Random) -> Words:
        (folder / name).write_bytes(change((seeds.files / name).read_bytes(), random))
        return random.choice(commands)

    return make


def frame(name: str, *commands: Words) -> Make:
    """A parquet file: its bytes, or a table whose values or columns are odd."""

    def make(seeds: Seeds, folder: Path, random: Random) -> Words:
        source = seeds.files / name
        rows = json.loads(pandas.read_parquet(source).to_json(orient="records"))
        try:
            if random.random() < 0.5:
                raise ValueError("its bytes")
            pandas.DataFrame(value_changed(rows, random)).to_parquet(folder / name)
        except Exception:  # no table can hold it
            (folder / name).write_bytes(bytes_changed(source.read_bytes(), random))
        return random.choice(commands)

    return make


def arrow(row: Mapping[str, Any], name: str, words: Words) -> Make:
    """A parquet file in which a column has a type of Arrow's own, or values that no Python type takes."""

    def make(seeds: Seeds, folder: Path, random: Random) -> Words:
        columns = {column: pyarrow.array([value] * 4) for column, value in row.items()}
        columns[random.choice(sorted(columns))] = random.choice(_COLUMNS)()
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / name)
        return words

    return make


def _viewed(kind: pyarrow.DataType, numbers: Sequence[int]) -> pyarrow.Array:
    return pyarrow.array(numbers, pyarrow.int64()).view(kind)


_COLUMNS: tuple[Callable[[], pyarrow.Array], ...] = (
    lambda: pyarrow.array([b"\xff\xfe", b"\xed\xa0\x80", b"a", b""]).view(pyarrow.string()),
    lambda: pyarrow.array([b"\xff", b"", b"a", None]),
    *(
        partial(_viewed, kind, (2**62, -(2**62), 0, 1))
        for kind in (
            *(pyarrow.timestamp(unit, zone) for unit, zone in (("ms", None), ("us", "UTC"), ("ns", "No/Where"))),
            *(pyarrow.duration("s"), pyarrow.duration("ns"), pyarrow.time64("us"), pyarrow.date64(), pyarrow.uint64()),
        )
    ),
    lambda: pyarrow.array([2**31 - 1, -(2**31), 0, None], pyarrow.int32()).view(pyarrow.date32()),
    lambda: pyarrow.array([[("a", 1), ("a", 2)]] * 4, pyarrow.map_(pyarrow.string(), pyarrow.int64())),
    lambda: pyarrow.array([{"a": [{"b": 1}]}, None, {}, {"a": []}]),
    lambda: pyarrow.array(["a", "\u202e", None, "${oc.env:HOME}"]).dictionary_encode(),
    lambda: pyarrow.array([Decimal("9" * 38), None, Decimal(0), Decimal(1)], pyarrow.decimal256(76, 0)),
    lambda: pyarrow.array([1.5, math.nan, -math.inf, 65504.0], pyarrow.float32()).cast(pyarrow.float16()),
    lambda: pyarrow.nulls(4),
)


def kept_responses(seeds: Seeds, folder: Path, random: Random) -> Words:
    """The responses of an evaluation."""
    source = next((seeds.run / "evaluation").glob("step-000002*.jsonl"))
    (folder / "kept.jsonl").write_bytes(lines_changed(source.read_bytes(), random))
    return ["grade", "regrade=true", "kept.jsonl", *random.choice(([], ["output=again"]))]


def recorded_task(seeds: Seeds, folder: Path, random: Random) -> Words:
    """A kept response whose record has a task, a reward or options that would leave a marker; half are changed too."""
    deed = f"open({str(folder / 'marker')!r}, 'w')"
    code, shell = f"__import__('builtins').exec({deed!r})", {"args": f"touch {folder}/marker", "shell": True}
    one = {"symbols": [code], **dict.fromkeys(("min_terms", "max_terms", "min_degree", "max_degree"), 1)}
    mixed = {"name": "simple_integration", "weight": 1, "config": one}
    tasks: tuple[dict[str, Any], ...] = (
        *({"name": name, "options": one} for name in ("reasoning_gym:simple_integration", "sums", "theirs:Task")),
        {"name": "reasoning_gym:composite", "options": {"datasets": [mixed]}},
        {"name": "${instruction}", "instruction": "subprocess:Popen", "options": shell},
        {"name": "subprocess:Popen", "options": {**shell, "env": {"A": ["${oc.env:HOME}"]}}},
        {"name": "sums", "reward": ["theirs:reward"], "options": {"a": {"b": ["${oc.decode:'theirs:x'}"]}}},
    )
    task = random.choice(tasks)
    kept = next((seeds.run / "evaluation").glob("step-000002*.jsonl")).read_text().splitlines()[0]
    entry = {"question": "?", "answer": "3", "metadata": {"source_dataset": "simple_integration", "integrand": code}}
    record = {**json.loads(kept), "response": f"<answer>{code}</answer>", "data": {"entry": entry}}
    record["task"] = task if random.random() < 0.5 else value_changed(task, random)
    (folder / "kept.jsonl").write_text(json.dumps(record) + "\n")
    return ["grade", "regrade=true", "kept.jsonl"]


def talking(seeds: Seeds, folder: Path, random: Random) -> Words:
    """A model whose chat template is changed, with prompts that are messages."""
    (folder / "verl.jsonl").write_bytes((seeds.files / "verl.jsonl").read_bytes())
    return within("talker", "chat_template.jinja", template_changed, _TALKS)(seeds, folder, random)


# ---- whole folders ---------------------------------------------------------------------------------------------------

_BOARD, _BOARD_OF_RUN = ["leaderboard", "grid", "output=board"], ["leaderboard", "grid/grpo-0", "output=board"]
_EVAL = ["eval", "grid/grpo-0", "output=evaluated", "evaluation.problems=1"]
_INSPECT, _DOCTOR = ["inspect", "grid/grpo-0", "tokens=20"], ["doctor", "grid/grpo-0"]
_RESUME = ["train", "grid/grpo-0/config.yaml", "resume=true", "train.steps=3", "output=grid/grpo-0"]
_COMPARE = ["compare", "grpo", "output=grid", "seeds=0,1", "train.steps=-1"]
_STEP_2 = "checkpoints/step-000002"
_LORA, _PARTIAL, _AHEAD = (
    ["train", f"{run}/config.yaml", "resume=true", "train.steps=3", f"output={run}"]
    for run in ("lora", "partial", "ahead")
)
_FEW = ("evaluation.problems=1", "evaluation.samples=1", "output=evaluated")
_TALKS = ["eval", "talker", "task.name=verl.jsonl", *_FEW]
_ADAPTED = ["eval", "adapted", *_FEW]
_EVALUATED = ["leaderboard", "grid/grpo-0/evaluation/sums-T0.7-p0.9.jsonl", "output=board"]

SUBJECTS: tuple[Subject, ...] = (
    Subject("expression", 2500, expression, kind="typed"),
    Subject("key", 1500, key, kind="typed"),
    Subject("configuration", 2300, own_config, kind="typed"),
    Subject("settings of TRL and verl", 700, settings, "file"),
    *(
        Subject(f"log: {name}", 270, _one_file(name, change, ["doctor", name], ["doctor", name, "--json"]), "file")
        for name, change in (
            *(("log.jsonl", lines_changed), ("trainer_state.json", json_changed), ("log.csv", bytes_changed)),
            *(("trl.log", bytes_changed), ("verl.log", bytes_changed)),
        )
    ),
    *(
        Subject(name, share, _one_file(file, change, words), "file")
        for name, share, file, change, words in (
            ("data: JSONL", 40, "data.jsonl", lines_changed, ["task", "task.name=data.jsonl"]),
            ("data: JSONL of verl", 30, "verl.jsonl", lines_changed, ["task", "task.name=verl.jsonl"]),
            ("responses to grade", 40, "grade.jsonl", lines_changed, ["grade", "grade.jsonl", "output=o.jsonl"]),
            ("results: CSV", 60, "results.csv", bytes_changed, ["leaderboard", "results.csv", "output=board"]),
        )
    ),
    Subject("data: parquet", 60, frame("data.parquet", ["task", "task.name=data.parquet"]), "file"),
    Subject(
        "results: parquet", 60, frame("results.parquet", ["leaderboard", "results.parquet", "output=board"]), "file"
    ),
    Subject("kept responses", 200, kept_responses),
    Subject("the task of a kept response", 100, recorded_task),
    Subject("metrics", 60, within("grid", "grpo-0/metrics.jsonl", lines_changed, _DOCTOR, _BOARD_OF_RUN, _RESUME)),
    Subject("timings", 15, within("grid", "grpo-0/timings.jsonl", lines_changed, _BOARD_OF_RUN)),
    Subject("responses", 15, within("grid", "grpo-0/responses.jsonl", lines_changed, _DOCTOR, _RESUME)),
    Subject(
        "evaluation", 25, within("grid", "grpo-0/evaluation/step-000002*.jsonl", lines_changed, _BOARD_OF_RUN, _RESUME)
    ),
    Subject("objective.json", 50, within("grid", "grpo-0/objective.json", json_changed, _BOARD, _INSPECT, _RESUME)),
    Subject(
        "config.yaml",
        60,
        within("grid", "grpo-0/config.yaml", bytes_changed, _BOARD_OF_RUN, _EVAL, _INSPECT, _DOCTOR, _RESUME),
    ),
    Subject("environment.json", 10, within("grid", "grpo-0/environment.json", json_changed, _BOARD_OF_RUN)),
    Subject("finished.json", 10, within("grid", "grpo-0/finished.json", json_changed, _BOARD_OF_RUN, _RESUME)),
    Subject(
        "results.json", 25, within("grid", "grpo-0/evaluation/results.json", json_changed, _EVALUATED, _BOARD_OF_RUN)
    ),
    Subject("grid.json", 40, within("grid", "grid.json", json_changed, _BOARD, _COMPARE)),
    *(
        Subject(f"checkpoint: {name}", share, checkpoint(name, change, *commands))
        for name, share, change, commands in (
            ("model.safetensors", 40, safetensors_changed, (_EVAL, _EVAL, _RESUME)),
            ("config.json", 40, json_changed, (_EVAL, _EVAL, _INSPECT)),
            ("generation_config.json", 15, json_changed, (_EVAL,)),
            ("tokenizer.json", 25, json_changed, (_EVAL,)),
            ("tokenizer_config.json", 15, json_changed, (_EVAL,)),
            ("training/optimizer.safetensors", 15, safetensors_changed, (_RESUME,)),
            ("training/progress.json", 30, json_changed, (_EVAL, _RESUME)),
            ("training/manifest.json", 15, json_changed, (_EVAL, _RESUME)),
        )
    ),
    Subject("chat template", 60, talking, "file"),
    Subject("push", 180, pushed),
    Subject("looks.json", 30, within("grid", "looks.json", json_changed, _BOARD)),
    *(
        Subject(file, 10, within("adapted", file, change, _ADAPTED), "file")
        for file, change in (("adapter_config.json", json_changed), ("adapter_model.safetensors", safetensors_changed))
    ),
    Subject(
        "checkpoint: training/adapters.safetensors",
        30,
        checkpoint("training/adapters.safetensors", safetensors_changed, _LORA, of="lora", at=_STEP_2),
    ),
    *(
        Subject(
            f"checkpoint: training/{file}.safetensors",
            share,
            checkpoint(f"training/{file}.safetensors", safetensors_changed, resumed, of=of, at=_STEP_2),
        )
        for file, share, of, resumed in (("begun", 60, "partial", _PARTIAL), ("ahead", 30, "ahead", _AHEAD))
    ),
    Subject("a pipe for a file", 40, piped),
    *(
        Subject(f"{kind}: Arrow's types", 30, arrow(row, "d.parquet", words), "file")
        for kind, row, words in (
            ("data", {"question": "1+2=", "answer": "3"}, ["task", "task.name=d.parquet"]),
            (
                *("results", {"method": "a", "seed": 0, "problem": "p", "sample": 0, "value": 1}),
                ["leaderboard", "d.parquet", "output=board"],
            ),
        )
    ),
    Subject("suite: cells.jsonl", 30, suite("cells.jsonl", lines_changed)),
    Subject("suite: looks.json", 15, suite("looks.json", json_changed)),
)
