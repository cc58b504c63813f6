"""What trainers log is read as the table that it is; what holds no numbers is refused in a line."""

import json
import os
import re
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from rlzoo.doctor.detectors import DETECTORS, IN_OTHERS, _in_words_of, examine
from rlzoo.doctor.readers import TRAINER_STATE, read_log, read_table, repetition, run_records, table_of
from rlzoo.errors import UserError

TRL = [
    {
        "loss": 0.01 * step,
        "grad_norm": 0.5,
        "learning_rate": 1e-6,
        "num_tokens": 100.0,
        "completions/mean_length": 100.0 + step,
        "completions/clipped_ratio": 0.25,
        "rewards/accuracy/mean": 0.5,
        "reward": 0.5,
        "reward_std": 0.4,
        "frac_reward_zero_std": 0.125,
        "sampling/sampling_logp_difference/mean": 0.02,
        "entropy": 0.75,
        "clip_ratio/region_mean": 0.03,
        "epoch": 0.1,
        "step": step,
    }
    for step in (1, 2, 3)
]
VERL = [
    {
        "actor/entropy": 0.75,
        "actor/pg_loss": 0.01 * step,
        "actor/pg_clipfrac": 0.03,
        "actor/grad_norm": 0.5,
        "actor/lr": 1e-6,
        "critic/score/mean": 0.5,
        "critic/rewards/mean": 0.4,
        "response_length/mean": 100.0 + step,
        "response_length/clip_ratio": 0.25,
        "training/rollout_probs_diff_mean": 0.02,
    }
    for step in (1, 2, 3)
]
SHARED = {
    "step": [1, 2, 3],
    "loss": [0.01, 0.02, 0.03],
    "reward": [0.5] * 3,
    "entropy": [0.75] * 3,
    "length": [101, 102, 103],
    "truncated": [0.25] * 3,
    "gradient_norm": [0.5] * 3,
    "clipped": [0.03] * 3,
    "learning_rate": [1e-6] * 3,
}
"""What all of them say."""
OF_SAMPLER = {
    "verl": ("sampler_probability_difference", 0.02),
    "": ("sampler_difference", 0.02),
}
"""Beginning of a kind of log -> what it says of sampler and trainer."""


def written(path: Path, lines: list[Any]) -> Path:
    """A file with a text or a record a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{it if isinstance(it, str) else json.dumps(it)}\n" for it in lines))
    return path


def verl_console() -> list[str]:
    """As verl prints it under Ray, among other lines."""
    lines = [
        f"\x1b[36m(TaskRunner pid=7)\x1b[0m step:{number} - "
        + " - ".join(
            f"{key}:np.float64({value})" if "entropy" in key else f"{key}:{value}" for key, value in it.items()
        )
        for number, it in enumerate(VERL, 1)
    ]
    return ["Training Progress:  1%|", *lines, "('Final validation metrics: None')"]


def trl_console() -> list[str]:
    """As transformers prints it: newer versions put numbers into quotes."""
    return [*(str({key: f"{value}" for key, value in it.items()}) for it in TRL), "{'train_runtime': 12.3}"]


def test_the_clip_of_our_objectives_is_read_from_both_trainers() -> None:
    records = [{"actor/touched/clip/tokens": 0.25, "actor/pg_clipfrac": 0.0}, {"touched/clip/tokens": 0.5}]
    assert table_of(records)["clipped"].tolist() == [0.25, 0.5]


@pytest.mark.parametrize("kind", ["state", "checkpoints", "trl.log", "verl.log", "verl.jsonl"])
def test_a_log_of_another_trainer_is_the_same_table(kind: str, tmp_path: Path) -> None:
    if kind == "state":
        state = {"log_history": [*TRL, {"eval_loss": 1.0, "step": 3}, {"train_runtime": 1.0, "step": 3}]}
        source = written(tmp_path / TRAINER_STATE, [state])
    elif kind == "checkpoints":
        for number in (1, 3):
            written(tmp_path / f"checkpoint-{number}" / TRAINER_STATE, [{"log_history": TRL[:number]}])
        source = tmp_path
    elif kind == "verl.jsonl":
        source = written(tmp_path / kind, [{"step": step, "data": it} for step, it in enumerate(VERL, 1)])
    else:
        source = written(tmp_path / kind, trl_console() if kind == "trl.log" else verl_console())
    table = read_table(source)
    for name, values in SHARED.items():
        np.testing.assert_allclose(table[name], values, rtol=1e-9, err_msg=name)
    name, value = next(it for begin, it in OF_SAMPLER.items() if kind.startswith(begin))
    np.testing.assert_allclose(table[name], [value] * 3)
    if kind != "verl.log" and kind != "verl.jsonl":
        np.testing.assert_allclose(table["groups_without_signal"], 0.125)
    else:
        assert "groups_without_signal" not in table


@pytest.mark.parametrize(
    ("lines", "trainer", "key"),
    [
        ([{**it, "completions/clipped_ratio": 1.0} for it in TRL], "trl", "(max_completion_length)"),
        ([{**it, "response_length/clip_ratio": 1.0} for it in VERL], "verl", "(data.max_response_length)"),
        ([{"step": step, "truncated": 1.0} for step in (1, 2, 3)], "", "(rollout.max_response_tokens)"),
    ],
)
def test_what_to_do_is_said_in_the_keys_of_the_trainer_that_wrote_the_log(
    lines: list[Any], trainer: str, key: str, tmp_path: Path
) -> None:
    table, found = read_log(written(tmp_path / "log.jsonl", lines))
    (finding,) = examine(table, trainer=found).findings
    assert found == trainer and finding.name == "truncation" and finding.setting.endswith(key)


@pytest.mark.parametrize("trainer", IN_OTHERS)
def test_no_key_of_ours_is_left_in_what_another_trainers_user_reads(trainer: str) -> None:
    settings = [it.setting for it in DETECTORS if not {*it.needs} & {"grading_lost"}]  # no other trainer logs that
    broken = {"groups_without_signal": [0.0, *[1.0] * 29], "reward": [0.5, *[0.1] * 29], "learning_rate": [1e-3] * 30}
    table = {name: np.array(values) for name, values in {"step": range(1, 31), "groups": [20.0] * 30, **broken}.items()}
    (finding,) = (it for it in examine(table, trainer=trainer).findings if it.name == "dead_groups")
    assert "training has broken the model" in finding.reason
    said = [finding.reason, *(_in_words_of(trainer, setting) for setting in settings)]
    assert not re.findall(r"\b(?:train|rollout|model|task)\.\w+|rlzoo \w+", " ".join(said))


def test_a_column_of_another_trainer_makes_no_run_of_ours_its_own(tmp_path: Path) -> None:
    strange = [{"step": step, "reward": 0.5, "actor/lr": 1e-6} for step in (1, 2, 3)]
    assert read_log(written(tmp_path / "run" / "metrics.jsonl", strange).parent)[1] == ""
    mixed = [{**it, "completions/mean_length": 3.0} for it in VERL]
    assert read_log(written(tmp_path / "mixed.jsonl", mixed))[1] == "verl"


def test_a_table_in_csv_is_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    source = tmp_path / "metrics.csv"
    source.write_text("step,reward,grad_norm,note\n2,0.5,nan,a\n1,0.25,0.1,b\n3,,0.2,c\n")
    table = read_table(source)
    np.testing.assert_array_equal(table["step"], [1, 2, 3])
    np.testing.assert_array_equal(table["reward"], [0.25, 0.5, np.nan])
    np.testing.assert_array_equal(table["updates_skipped"], [0, 1, 0])


def test_a_line_without_a_step_takes_no_other_ones_place(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[dict[str, object]] = [{"step": 1, "reward": 0.1}, {"step": 3, "reward": 0.3}, {"reward": 0.9}]
    table = table_of([*lines, {"note": "of no metric"}])
    assert table["step"].tolist() == [1, 3] and table["reward"].tolist() == [0.1, 0.3]
    assert "1 of 3 lines have no step and are left out" in caplog.text
    counted = table_of([{"reward": 0.5}, {"note": "of no metric"}, {"reward": 0.25}, {"step": 7}])
    assert counted["step"].tolist() == [1, 2] and counted["reward"].tolist() == [0.5, 0.25]
    most = table_of([{"reward": 0.5}, {"reward": 0.25}, {"step": 50, "accuracy": 0.75}])
    assert most["reward"].tolist() == [0.5, 0.25] and "1 of 3 lines have a step, as others have none," in caplog.text


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    source = written(tmp_path / "metrics.jsonl", [{"step": 1, "reward": 0.5}])
    with source.open("a") as file:
        file.write('{"step": 2, "rew')
    assert len(read_table(tmp_path)["step"]) == 1


def test_a_whole_last_line_without_an_end_counts(tmp_path: Path) -> None:
    source = tmp_path / "table.jsonl"
    source.write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "reward": 0.25}')
    np.testing.assert_array_equal(read_table(source)["reward"], [0.5, 0.25])
    source.write_text('{"step": 1, "reward": 0.5}\n')
    assert len(read_table(source)["step"]) == 1


def test_settings_that_are_printed_first_are_no_step(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "trl.log", ["{'learning_rate': 1e-6, 'beta': 0.04}", *trl_console()]))
    np.testing.assert_array_equal(table["step"], [1, 2, 3])


def test_a_damaged_configuration_is_told_and_the_metrics_are_examined(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path / "metrics.jsonl", [{"step": 1, "reward": 0.5}])
    (tmp_path / "config.yaml").write_text("rollout: {")
    np.testing.assert_array_equal(read_table(tmp_path)["reward"], [0.5])
    assert "examined without it" in caplog.text


def test_responses_of_a_run_say_how_much_they_repeat(tmp_path: Path) -> None:
    written(tmp_path / "metrics.jsonl", [{"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.5}])
    said = [{"step": 1, "response": "It is 4."}, {"step": 2, "response": "no no no no no"}, {"step": 2, "response": ""}]
    written(tmp_path / "responses.jsonl", said)
    np.testing.assert_allclose(read_table(tmp_path)["repetition"], [0, 0.5], atol=0.05)


def test_gradings_that_were_lost_are_a_share_of_the_responses_of_a_step() -> None:
    logged = [{"step": 1, "grading_timed_out": 3.0, "grading_failed": 1.0}]
    np.testing.assert_array_equal(table_of(run_records(logged, (), (4, 4)))["grading_lost"], [0.25])
    assert not table_of(run_records(logged, ()))


@pytest.mark.parametrize(
    ("objective", "counts"),
    [
        ("grpo", True),
        *((name, False) for name in ("gspo", "rloo(variant=trl)", "dapo+sequence_ratio", "vespo")),
    ],
)
def test_a_clip_of_whole_responses_says_nothing_of_how_stale_they_are(objective: str, counts: bool) -> None:
    logged = [{"step": 1, "reward": 1.0, "touched/clip/tokens": 0.5}]
    assert ("clipped" in table_of(run_records(logged, objective=objective))) == counts


@pytest.mark.parametrize(
    ("text", "share"),
    [("", 0), ("abcdefgh", 0), ("aaaaaaaa", 1), ("so: 12 12 12 12 12", 15 / 18), ("aaa", 0), ("x" * 9000, 1)],
)
def test_repetition_is_the_share_of_a_unit_that_stands_at_the_end_four_times(text: str, share: float) -> None:
    assert repetition(text) == pytest.approx(share)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("gone.jsonl", None, "does not exist"),
        ("a.jsonl", "{}\n", "no line with a metric"),
        ("a.jsonl", "[1]\n", "line 1 is no record"),
        ("a.jsonl", '{"step": 1, "rew\n', "line 1 is not readable"),
        ("a.json", "[" * 100_000, "not readable: it is nested too deep"),
        ("a.json", "[]", "no log_history"),
        ("a.log", "nothing\n", "no line with a metric"),
        ("a.csv", "\n", "no line with a metric"),
        ("a.csv", "Step;Reward\n1;0.5\n", "names in it are 'Step;Reward'"),
        ("a.csv", "run - train/reward\n0.5\n", "names in it are 'run - train/reward'"),
        ("a.log", "{'learning_rate': 1e-6, 'beta': 0.04}\n", "no line with a metric"),
        ("a" * 300, None, "cannot be read"),
    ],
)
def test_what_holds_no_metrics_is_refused_in_a_line(name: str, text: str | None, says: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=says):
        read_table(tmp_path / name)


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no metrics\.jsonl, no trainer_state\.json, and no file of a tracker"):
        read_table(tmp_path)


METRICS = "create table metrics (id integer primary key, run_id, run_name, step, metrics)"
LOGGED = "insert into metrics values (1, 'r', 'a', 1, '{\"reward\": 0.5}')"
ENDLESS = "with recursive n(id) as (select 1 union all select id + 1 from n) select id, 1 run_id, 1 run_name from n"
LONG = "update metrics set metrics = replace(metrics, '}', ', \"text\": \"' || hex(zeroblob(9000000)) || '\"}')"
COMPUTED = (f"{METRICS[:-1]} as (step))", LOGGED.replace("1, '{", "'{"))


def database(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as written:
        for statement in statements:
            written.execute(statement)
        written.commit()
    return path


def event(data: bytes, size: int) -> bytes:
    """A record of an event file with right checksums."""
    head = struct.pack("<Q", size)
    return b"".join((head, struct.pack("<I", masked_crc32c(head)), data, struct.pack("<I", masked_crc32c(data))))


EVENTS = "events.out.tfevents.1"
HOSTILE_FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    **{f"a pipe as {name}": (name, os.mkfifo) for name in ("x.csv", TRAINER_STATE, "x.log")},
    "a pipe as the state of a folder": ("checkpoint-1", lambda path: (path.mkdir(), os.mkfifo(path / TRAINER_STATE))),
    "an endless device": ("x.csv", lambda path: path.symlink_to("/dev/zero")),
    "a pipe as database": ("x.db", os.mkfifo),
    "a pipe as run": ("x.wandb", os.mkfifo),
    "a pipe as events": (EVENTS, os.mkfifo),
    "a pipe as journal": ("x.db", lambda path: os.mkfifo(f"{database(path, METRICS, LOGGED)}-journal")),
    "zeros": ("x.wandb", lambda path: path.write_bytes(b":W&B\0\0\0" + bytes(1 << 20))),
    "many parts": ("x.wandb", lambda path: path.write_bytes(b":W&B\0\0\0" + b"\0\0\0\0\0\0\3" * 400_000)),
    "no event": (EVENTS, lambda path: path.write_bytes(event(b"\xff" * 9, 9))),
    "an event without bounds": (EVENTS, lambda path: path.write_bytes(event(b"", 1 << 62))),
    "a number as metrics": (
        "x.db",
        lambda path: database(path, METRICS, LOGGED, f"update metrics set metrics={1 << 62}"),
    ),
    "a long value": ("x.db", lambda path: database(path, METRICS, LOGGED, LONG)),
    "a view": ("x.db", lambda path: database(path, f"create view metrics as {ENDLESS}")),
    "a computed column": ("x.db", lambda path: database(path, *COMPUTED)),
}


@pytest.mark.parametrize("file", HOSTILE_FILES)
def test_a_hostile_file_is_refused_in_a_line_at_once(file: str, tmp_path: Path) -> None:
    name, write = HOSTILE_FILES[file]
    write(tmp_path / name)
    command = [sys.executable, "-m", "rlzoo", "doctor", str(tmp_path / name)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=25)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert name in ran.stderr


def test_a_log_that_a_shell_hands_over_is_read(tmp_path: Path) -> None:
    for folder in ("/dev/fd", "/proc/self/fd"):
        reader, writer = os.pipe()
        os.write(writer, b"{'reward': 0.5, 'step': 3}\n")
        os.close(writer)
        assert read_table(Path(f"{folder}/{reader}"))["step"].tolist() == [3]
        os.close(reader)


def test_a_stream_without_a_line_end_is_refused_in_a_line() -> None:
    command = [sys.executable, "-m", "rlzoo", "doctor", "/dev/stdin"]
    with open("/dev/zero", "rb") as zeros:
        ran = subprocess.run(command, stdin=zeros, capture_output=True, text=True, timeout=25)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1) and "has a line of" in ran.stderr, ran.stderr


def test_a_database_that_does_not_answer_in_time_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlzoo.doctor.trackers.SECONDS", 0.0)
    many = f"insert into metrics {ENDLESS.replace('run_name', 'run_name, 1, 1')} limit 1000"
    with pytest.raises(UserError, match=r"x\.db cannot be read: interrupted"):
        read_table(database(tmp_path / "x.db", METRICS, many))


def test_a_run_of_trackio_without_an_id_is_read(tmp_path: Path) -> None:
    without_id = database(tmp_path / "x.db", METRICS, LOGGED, "update metrics set run_id = null")
    assert read_table(without_id)["reward"].tolist() == [0.5]


@pytest.mark.parametrize("kind", ["db", "wandb"])
def test_files_of_several_runs_are_no_one_run(kind: str, tmp_path: Path) -> None:
    for name in ("alpha", "beta"):
        database(tmp_path / f"{name}.db", METRICS, LOGGED).rename(tmp_path / f"{name}.{kind}")
    with pytest.raises(UserError, match=rf"several runs: alpha\.{kind}, beta\.{kind}; give one of these files"):
        read_table(tmp_path)
    assert kind == "wandb" or read_table(tmp_path / "beta.db")["reward"].tolist() == [0.5]


def test_a_folder_with_a_pipe_beside_a_file_of_a_tracker_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / EVENTS)
    database(tmp_path / "x.db", METRICS, LOGGED)
    assert read_table(tmp_path)["reward"].tolist() == [0.5]


def test_a_run_of_wandb_that_is_cut_or_no_run_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file = tmp_path / "run.wandb"
    for content in (b"", b":W&B", b":W&B\0\0\0" + bytes(40_000), b":W&B\0\0\0" + b"\xff" * 40_000):
        file.write_bytes(content)
        with pytest.raises(UserError, match=r"run\.wandb"):
            read_table(file)
