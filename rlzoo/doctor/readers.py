"""Tables from what trainers leave: our run folders, logs of TRL and verl, CSV and JSON lines.

A file is data. Nothing that it names is imported, and what is no number of a known metric is left out.
"""

import csv
import itertools
import logging
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from objectives import ObjectiveError, parse
from objectives.parts.losses import SequenceRatio
from rlzoo.doctor.indicators import COLUMNS, Table
from rlzoo.doctor.trackers import tracker_files, tracker_records
from rlzoo.errors import UserError, one_line
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import json_lines, read_json, read_json_file
from rlzoo.records import ANYTHING, Fields

Record: TypeAlias = Mapping[str, Any]

_LINE = Fields({"step": ANYTHING})
_logger = logging.getLogger(__name__)
_NUMBER = r"[-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf|NaN|Infinity)"
_TRL_VALUE = re.compile(rf"'([\w/@.-]+)': ['\"]?({_NUMBER})\b")
_VERL_VALUE = re.compile(rf"(?:^| - )([\w/@.-]+):(?:np\.\w+\()?({_NUMBER})\b")
_VERL_LINE = re.compile(r"\bstep:\d+ - ")
NAMED = 6
"""Number of names that an error lists of a table without a metric."""
LONGEST_LINE = 1 << 24
"""Characters of a line that are read; a stream may have no line's end at all."""
LAST_STEP = 2.0**53
"""What is counted as a step at most: beyond it, numbers of this kind have gaps."""
TRAINER_STATE = "trainer_state.json"
"""What transformers' Trainer, and so TRL's, writes into each checkpoint."""
_HANDED_OVER = re.compile(r"/dev/(stdin|fd/\d+)|/proc/self/fd/\d+")
"""What a user names whose shell hands over what a command prints."""


def read_table(path: Path) -> Table:
    """The table of a run's folder, a log or a table, finished or not. Raises UserError for what holds no step."""
    return read_log(path)[0]


def read_log(path: Path) -> tuple[Table, str]:
    """The same, and the trainer that wrote it: "trl", "verl", or empty for a run or a table of ours."""
    try:
        if not path.exists():
            raise UserError(f"{path} does not exist; give the folder of a run, {TRAINER_STATE}, a log, or a table")
        records = list(_records_in_folder(path) if path.is_dir() else _records_in_file(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read: {one_line(error)}") from None
    table = table_of(records)
    if not table:
        known = ", ".join(name for name in COLUMNS if name != "step")
        raise UserError(
            f"{path} has no line with a metric that is known here{_seen(records)}; columns may be called {known}"
        )
    return table, "" if RunFolder(path).metrics.is_file() else _trainer_of(records)


def _trainer_of(records: Iterable[Record]) -> str:
    """The other trainer to which most names belong of those that stand for a column."""
    names = [name for name in {name for record in records for name in record} if _place_of(name)[1]]
    counts = {trainer: sum(name.startswith(begin) for name in names) for trainer, begin in TRAINERS.items()}
    trainer = max(counts, key=counts.__getitem__)
    return trainer if counts[trainer] else ""


def _seen(records: Iterable[Record]) -> str:
    """The names that there are instead, the first of them."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return f": the names in it are {one_line(', '.join(map(repr, names[:NAMED])))[:300]}" if names else ""


def table_of(records: Iterable[Record]) -> Table:
    """The table of what was logged at each step; lines of one step add up, and of two values the later one holds.

    Lines are counted where most have no `step`; of both kinds the fewer are left out.
    """
    lines = [line for record in records if (line := _known(record)).keys() - {"step"}]
    placed, others = ([line for line in lines if ("step" in line) == has_step] for has_step in (True, False))
    read, lost = (placed, others) if len(placed) >= len(others) else (others, placed)
    if lost:
        what = "a step, as others have none," if read is others else "no step"
        _logger.warning("%d of %d lines have %s and are left out", len(lost), len(lines), what)
    steps: dict[float, dict[str, float]] = defaultdict(dict)
    for number, values in enumerate(read, 1):
        step = values.pop("step", float(number))
        if abs(step) <= LAST_STEP:
            steps[step] |= values
    names = [name for name in COLUMNS if any(name in values for values in steps.values())]
    if not names:
        return {}
    rows = sorted(steps.items())
    columns = {name: np.array([values.get(name, np.nan) for _, values in rows]) for name in names}
    finite = {name: np.where(np.isfinite(values), values, np.nan) for name, values in columns.items()}
    return {"step": np.array([step for step, _ in rows]), **finite}


def _known(record: Record) -> dict[str, float]:
    return canonical({key: number for key, value in record.items() if (number := _number(value)) is not None})


def run_records(
    metrics: Iterable[Record],
    responses: Iterable[Record] = (),
    size: tuple[int, int] = (0, 0),
    objective: str = "",
    old_logp: str = "",
) -> Iterator[Record]:
    """The records of our own run: its metrics, with what its responses and their number add to them.

    `size` is the groups of a step and the responses of a group; 0 says that their number is not known. An `objective`
    whose clip takes whole responses clips half of the tokens of a healthy run (GSPO, arXiv:2507.18071, section 5.2), so
    that the share says nothing of it. `old_logp` is the run's `rollout.old_logp`, if it is known.
    """
    meaningless = {"touched/clip/tokens"} if _clips_responses(objective) else set()
    repeated = defaultdict[float | None, list[float]](list)
    for response in responses:
        repeated[_number(response.get("step"))].append(repetition(str(response.get("response", ""))))
    groups, responses_per_step = size[0], size[0] * size[1]
    for record in metrics:
        added = {"groups": float(groups)} if groups else {}
        added |= {"old_of_sampler": float(old_logp == "engine")} if old_logp else {}
        if shares := repeated.get(_number(record.get("step"))):
            added["repetition"] = sum(shares) / len(shares)
        timed_out, failed = (_number(record.get(name)) for name in ("grading_timed_out", "grading_failed"))
        if responses_per_step and timed_out is not None and failed is not None:
            added["grading_lost"] = (timed_out + failed) / responses_per_step
        yield {**{name: value for name, value in record.items() if name not in meaningless}, **added}


def _clips_responses(objective: str) -> bool:
    """False for an expression that cannot be read without importing what it names."""
    try:
        return any(isinstance(part, SequenceRatio) for part in parse(objective, imports=False).parts)
    except ObjectiveError:
        return False


def _records_in_folder(path: Path) -> Iterator[Record]:
    folder = RunFolder(path)
    if folder.metrics.is_file():
        yield from run_records(
            json_lines(folder.metrics, _LINE), json_lines(folder.responses, _LINE), *_settings(folder)
        )
        return
    if files := tracker_files(path):
        yield from itertools.chain.from_iterable(map(_records_in_file, files))
        return
    states = [*path.glob(TRAINER_STATE), *path.glob(f"checkpoint-*/{TRAINER_STATE}")]
    if not states:
        raise UserError(
            f"{path} has no metrics.jsonl, no {TRAINER_STATE}, and no file of a tracker; give the file of its log"
        )

    yield from _records_in_file(max(states, key=_checkpoint_number))


def _settings(folder: RunFolder) -> tuple[tuple[int, int], str, str]:
    """(Groups of a step, responses of a group), the objective's name, and `rollout.old_logp`.

    Names are read as text; no code is loaded.
    """
    if not folder.config.is_file():
        return (0, 0), "", ""
    try:
        config = folder.read_config()
    except UserError as error:
        _logger.warning("%s; the metrics are examined without it", error)
        return (0, 0), "", ""
    rollout = config.rollout
    return (rollout.prompts_per_step, rollout.responses_per_prompt), config.objective, rollout.old_logp


def _checkpoint_number(state: Path) -> float:
    """A state beside the checkpoints was written last."""
    number = state.parent.name.removeprefix("checkpoint-")
    return float(number) if number.isdecimal() and state.parent.name != number else np.inf


def _records_in_file(path: Path) -> Iterator[Record]:
    if not path.is_file() and not _HANDED_OVER.fullmatch(str(path)):
        told = "give a file, or pipe what a trainer prints into /dev/stdin"
        raise UserError(f"{path} is no file, and is not waited for; {told}")
    if (records := tracker_records(path)) is not None:
        return records
    if path.suffix == ".json":
        return _trainer_state(path)
    if path.suffix == ".jsonl":
        return _json_records(path)
    return _csv_records(path) if path.suffix == ".csv" else _console_records(path)


def _trainer_state(path: Path) -> Iterator[Record]:
    """The `log_history` of transformers: a record each time it logs."""
    state = read_json_file(path)
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        raise UserError(f"{path} has no log_history; give a {TRAINER_STATE}")
    return (record for record in history if isinstance(record, dict))


def _json_records(path: Path) -> Iterator[Record]:
    """A record a line; verl's file logger puts the metrics into `data`, beside the step."""
    for record in itertools.chain(json_lines(path), _unended(path)):
        data = record.get("data")
        yield {**data, "step": record.get("step")} if isinstance(data, dict) else record


def _unended(path: Path) -> Iterator[Record]:
    """The last line if it is a whole record without a line's end, as other writers leave it."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LONGEST_LINE))
        yield from whole_records([file.read().rpartition(b"\n")[2]])


def whole_records(lines: Iterable[bytes]) -> Iterator[Record]:
    """Those of lines that are records; others may be half written."""
    for line in lines:
        with suppress(ValueError):
            if isinstance(record := read_json(line.decode()), dict):
                yield record


def _csv_records(path: Path) -> Iterator[Record]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            yield {name: value for name, value in row.items() if isinstance(name, str)}


def _console_records(path: Path) -> Iterator[Record]:
    """What TRL (a dict a line) and verl (`step:1 - name:value - ...`) print among other lines."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in iter(partial(file.readline, LONGEST_LINE), ""):
            if len(line) == LONGEST_LINE:
                raise UserError(f"{path} has a line of {LONGEST_LINE} characters or more; give what a trainer prints")
            if begin := _VERL_LINE.search(line):
                yield dict(_VERL_VALUE.findall(line[begin.start() :]))
            elif "{" in line:
                values = dict(_TRL_VALUE.findall(line[line.index("{") :]))
                if values.keys() & {"epoch", "step"}:  # a dict of settings has neither
                    yield values


def _number(value: Any) -> float | None:
    """A number, also one in a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


# ---- what other trainers call the columns ----------------------------------------------------------------------------

# TRL: `trl/trainer/grpo_trainer.py` (`_metrics`, `log`), commit f2cd577; `grad_norm` and `learning_rate` are
# transformers'. verl: `verl/trainer/ppo/metric_utils.py`, `verl/workers/actor/dp_actor.py`,
# `verl/utils/debug/metrics.py` and `verl/trainer/ppo/rollout_corr_helper.py`, commit b178a3c.


TRAINERS: Mapping[str, tuple[str, ...]] = {
    "trl": ("completions/", "frac_reward_zero_std", "clip_ratio/", "sampling/"),
    "verl": ("actor/", "critic/", "response_length/"),
}
"""Trainer -> how names begin that only its logs have."""


def _sources(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, patterns))


SOURCES: Mapping[str, tuple[re.Pattern[str], ...]] = {
    "loss": _sources("actor/pg_loss"),
    "reward": _sources("critic/score/mean", "critic/rewards/mean"),
    "reward_deviation": _sources("reward_std"),
    "entropy": _sources("actor/entropy"),
    "length": _sources("completions/mean_length", "response_length/mean"),
    "truncated": _sources("completions/clipped_ratio", "response_length/clip_ratio"),
    "groups_without_signal": _sources("frac_reward_zero_std"),
    "gradient_norm": _sources("grad_norm", "actor/grad_norm"),
    "clipped": _sources("(?:actor/)?touched/clip/tokens", "clip_ratio/region_mean", "actor/pg_clipfrac"),
    "sampler_difference": _sources("sampler/difference", "sampling/sampling_logp_difference/mean"),
    "sampler_kl": _sources("rollout_corr/k3_kl"),
    "sampler_probability_difference": _sources("training/rollout_probs_diff_mean"),
    "learning_rate": _sources("actor/lr"),
}
"""Column -> the metrics that stand for it, the best first. A metric with a column's own name comes before them."""


@lru_cache(100_000)
def _place_of(metric: str) -> tuple[str, int]:
    """The column that a metric stands for, and how many stand for it better; `("", 0)` for what is no column."""
    if metric in COLUMNS:
        return metric, 0
    for name, sources in SOURCES.items():
        for rank, source in enumerate(sources, 1):
            if source.fullmatch(metric):
                return name, rank
    return "", 0


def canonical(record: Mapping[str, float]) -> dict[str, float]:
    """The columns that the metrics of a step have, of any trainer; what is no column is left out."""
    ranks, values = dict[str, int](), dict[str, float]()
    for metric, value in record.items():
        name, rank = _place_of(metric)
        if name and rank <= ranks.get(name, rank):
            ranks[name] = rank
            values[name] = value
    return _with_skipped(values)


def _with_skipped(values: dict[str, float]) -> dict[str, float]:
    """A norm that is no number is that of an update which trainers skip, and which some do not count."""
    norm = values.get("gradient_norm")
    if norm is None:
        return values
    if not math.isfinite(norm):
        return {**values, "gradient_norm": math.nan, "updates_skipped": max(1.0, values.get("updates_skipped", 0.0))}
    return {"updates_skipped": 0.0, **values}


# ---- repetition ------------------------------------------------------------------------------------------------------

LEAST_REPEATS = 4
"""Times that a unit has to stand there."""
LONGEST_UNIT = 64
"""Characters of a unit at most."""
LOOKED_AT = 4096
"""Characters of the end that are looked at."""


def repetition(text: str) -> float:
    """The share of the text, of its last characters if it is long, that the repeated unit fills; 0 for an empty one."""
    end = text.rstrip()[-LOOKED_AT:]
    if not end:
        return 0.0
    return max(_filled(end, unit) for unit in range(1, LONGEST_UNIT + 1)) / len(end)


def _filled(text: str, unit: int) -> int:
    """How many characters of the end repeat each other at a distance of `unit`; 0 if that is too few times."""
    same = unit
    while same < len(text) and text[-same - 1] == text[-same - 1 + unit]:
        same += 1
    return same if same >= LEAST_REPEATS * unit else 0
