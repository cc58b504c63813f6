"""What the terminal says of a run: its time, its steps, and what to type next."""

import io
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from objectives import parse
from rlzoo.config import flat, load_config
from rlzoo.config.decoding import Decoding
from rlzoo.config.recorded import RecordedKeys, check_recorded
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.evaluation.target import keys_of_code
from rlzoo.experiment.check import check
from rlzoo.experiment.experiment import counted
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.report.evaluation import figures_table, responses_table
from rlzoo.report.table import PlainConsole
from rlzoo.report.terminal import StepRow, Terminal, _next, _time_spent
from rlzoo.rollout.sampler import MODEL_PHASES, PHASES
from rlzoo.training.run import Outcome


def test_the_table_of_phases_fits_80_columns_and_adds_up() -> None:
    line = {"seconds": 4.0, "tokens": 100} | dict.fromkeys(PHASES, 0.5)
    line |= {f"{phase}_positions": 1_234_567 for phase in MODEL_PHASES}
    line |= {f"{phase}_flops": 5e11 for phase in MODEL_PHASES}
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(_time_spent([line, line], peak=2e12))
    text = console.export_text()
    assert max(len(row) for row in text.splitlines()) <= 80
    (train,) = (row.split() for row in text.splitlines() if row.strip().startswith("train"))
    assert train == ["train", "0.500", "12%", "1,234,567", "2469.1k", "1,000.0", "50%"]
    assert "4.000" in text and "25 sampled tokens/s" in text


def test_things_are_counted_as_people_do() -> None:
    said = [counted(number, thing) for number, thing in ((1, "step"), (2, "step"), (1, "pass"), (1200, "mini-batch"))]
    assert said == ["1 step", "2 steps", "1 pass", "1,200 mini-batches"]


def test_a_step_shows_signal_and_truncation_and_the_accuracy_only_where_it_is_not_the_reward() -> None:
    metrics = {"step": 1, "reward": 0.5, "accuracy": 0.5, "groups_without_signal": 0.25, "entropy": 1.0, "length": 9.0}
    metrics |= {"truncated": 0.125, "updates_skipped": 1, "grading_timed_out": 0, "grading_failed": 0}
    timings = {"tokens": 10, "seconds": 2.0}
    for reward, shown in ((0.5, False), (-0.5, True)):
        row = StepRow(2, ["s2t"])
        line, trouble = row.text(metrics | {"reward": reward}, timings).split("\n")
        assert "75%" in line and " 12% " in line and trouble.strip() == "1 update skipped"
        assert ("accuracy" in row.heading()) == shown and len(row.heading()) == len(line) <= 80


def test_what_tools_did_stands_in_a_line_of_its_own_so_that_no_line_is_too_wide() -> None:
    metrics = {"step": 1, "reward": -0.5, "accuracy": 0.5, "groups_without_signal": 0.25, "entropy": 1.0}
    metrics |= {"length": 3123.4, "truncated": 0.1, "updates_skipped": 0, "grading_timed_out": 0, "grading_failed": 0}
    metrics |= {"turns": 12.5, "tool_calls": 11.25, "tool_errors": 10.75, "tool_tokens": 2345.6}
    row = StepRow(1000, ["s2t"], has_tools=True)
    line, tools = row.text(metrics, {"tokens": 10_000, "seconds": 2.0}).split("\n")
    assert max(map(len, (row.heading(), line, tools))) <= 80 and len(row.heading()) == len(line)
    assert "12.50 turns, 11.25 calls, 10.75 failed" in tools and "3123 written, 2346 heard" in tools


@pytest.mark.parametrize(
    ("words", "inspected", "evaluated"),
    [
        (["task.tools=rlzoo.tasks.calculator:calculate", "task.name=calculator"], False, False),
        (["task.tools=./tests/rollout/calling_model.py:add"], True, True),
        (["task.environment=./counter.py:Counter"], True, True),
        (["task.reward=./reward.py:short"], True, True),
        (["objective=my_module:part"], True, False),
    ],
)
def test_a_run_that_names_code_is_trusted_in_the_commands_that_need_that_code(
    words: list[str], inspected: bool, evaluated: bool
) -> None:
    config, folder = load_config(words), Path("runs/one")
    keys = {"inspect": flat(asdict(config)), "eval": keys_of_code(config)}
    objective = parse("grpo")
    outcome: Any = SimpleNamespace(
        experiment=SimpleNamespace(config=config, objective=objective), folder=RunFolder(folder)
    )
    commands = {command[1]: command for command in _next(outcome)}
    for name, trusts in (("inspect", inspected), ("eval", evaluated)):
        trust = [word.removeprefix("trust=") for word in commands[name] if word.startswith("trust=")]
        assert bool(trust) == trusts
        check_recorded([RecordedKeys(folder / "config.yaml", keys[name])], trust=trust)  # as the command does


def test_what_to_type_next_can_be_copied_whatever_the_folder_is_called() -> None:
    config = load_config(["objective=stapo(q=0.8)", "train.steps=3"])
    experiment = SimpleNamespace(config=config, objective=parse(config.objective))
    outcome: Any = SimpleNamespace(experiment=experiment, folder=RunFolder(Path("my runs/first one")))
    look, compare, evaluate = _next(outcome)
    assert shlex.split(shlex.join(look)) == ["rlzoo", "inspect", "my runs/first one"]
    assert compare == [
        "rlzoo",
        "compare",
        "grpo",
        "stapo(q=0.8)",
        "seeds=0,1,2",
        "train.steps=3",
        "train.schedule=constant",
    ]
    taught = SimpleNamespace(config=config, objective=parse("opd"))
    (_, beside, _) = _next(SimpleNamespace(experiment=taught, folder=outcome.folder))  # type: ignore[arg-type]
    assert beside[2] == "grpo+opd(coefficient=0)"
    assert evaluate[2] == "my runs/first one"


@pytest.mark.parametrize(
    ("device", "precision", "says_so"),
    [("cuda", "float32", True), ("cuda", "bfloat16", False), ("cpu", "float32", False)],
)
def test_slow_precision_on_a_gpu_is_said_at_the_start(
    device: str, precision: str, says_so: bool, tmp_path: Path
) -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    experiment = check(load_config([f"output={tmp_path / 'run'}", f"model.precision={precision}"]))
    Terminal(console).introduce(experiment, device, 1)
    assert ("ten times slower than model.precision=bfloat16" in console.export_text()) == says_so


@pytest.mark.parametrize("cut", [1.0, 0.9])
def test_what_ends_a_response_is_said_at_the_start_and_again_where_none_has_ended(cut: float, tmp_path: Path) -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    experiment = check(load_config([f"output={tmp_path / 'run'}", "train.steps=3", "rollout.max_response_tokens=24"]))
    Terminal(console).introduce(experiment, "cpu", 1)
    end = f"<eos> ({experiment.tokenizer.backend.eos_token_id})"
    assert f"end with {end}, or are cut after 24 tokens" in console.export_text()
    metrics = {"reward": 0.0, "accuracy": 0.0, "groups_without_signal": 1.0, "entropy": 1.0, "length": 24.0}
    metrics |= {"truncated": cut, "updates_skipped": 0, "grading_timed_out": 0, "grading_failed": 0}
    with Terminal(console).training(experiment, 0) as show:
        for step in (1, 2):
            show({**metrics, "step": step}, {"tokens": 10, "seconds": 2.0}, [])
    warned = f"every response was cut at rollout.max_response_tokens=24: none had {end}, which ends one"
    assert console.export_text().count(warned) == (cut == 1)


def outcome_of(before: Sequence[float], after: Sequence[float]) -> Outcome:
    """A run of these accuracies problem by problem, two samples each, greedy as well."""

    def evaluation(accuracies: Sequence[float], samples: int) -> Evaluation:
        record = {"answer": "7", "reward": 0.0, "outcome": "graded", "tokens": 5, "entropy": 0.5, "final_answer": "1"}
        rows = [
            {**record, "problem": f"p{number}", "prompt": f"{number}+0=", "sample": sample}
            | {"correct": float(sample < samples * share), "response": f"said {number} \x1b[31m {'x' * 500}"}
            for number, share in enumerate(accuracies)
            for sample in range(samples)
        ]
        return Evaluation(rows, samples)

    by_decoding = {
        Decoding(1.0, 1.0): {0: evaluation(before, 2), 9: evaluation(after, 2)},
        Decoding(0.0, 1.0): {0: evaluation(before, 1), 9: evaluation(after, 1)},
    }
    return cast(Outcome, SimpleNamespace(evaluations=by_decoding, experiment=SimpleNamespace(task=None)))


def test_before_and_after_fit_80_columns_and_show_every_decoding_and_pass_at_k() -> None:
    console = PlainConsole(width=80, file=io.StringIO())
    console.print(figures_table(outcome_of([0, 0.5, 0.5], [1, 1, 0.5])))
    _, heading, *lines = console.file.getvalue().splitlines()
    assert max(map(len, (heading, *lines))) <= 80 and "[95 %]" in heading
    figures = {line.strip().split("  ")[0]: line for line in lines if "[" in line}
    assert list(figures) == ["avg@2 T=1 top-p=1", "pass@2", "greedy"]
    assert "33.3 [" in figures["avg@2 T=1 top-p=1"] and "83.3 [" in figures["avg@2 T=1 top-p=1"]
    assert "66.7 [" in figures["pass@2"] and "100.0 [" in figures["pass@2"] and "+33.3 [" in figures["pass@2"]


def test_responses_are_those_to_the_problem_with_the_median_change_and_steer_no_terminal() -> None:
    console = PlainConsole(width=80, file=io.StringIO())
    console.print(responses_table(outcome_of([0, 0, 0.5], [1, 0.5, 0.5])))
    text = console.file.getvalue()
    assert "1+0=" in text and "0+0=" not in text and "2+0=" not in text
    assert text.count("said 1") == 4 and text.count("right") == 1 and text.count("wrong") == 3
    assert "\x1b" not in text and "500" not in text and "characters)" in text


@pytest.mark.parametrize(
    ("words", "idle"),
    [
        (["train.minibatches_per_step=1"], "clip, clip_higher"),
        (["train.minibatches_per_step=1", "objective=grpo+gspo-kl"], "sequence_ratio, clip, clip_higher"),
        (["train.minibatches_per_step=2"], ""),
        (["train.minibatches_per_step=1", "rollout.ahead=1"], ""),
        (["train.minibatches_per_step=1", "objective=lopti"], ""),
    ],
)
def test_the_first_lines_of_a_run_say_which_parts_cannot_act_and_what_lets_them(
    words: list[str], idle: str, tmp_path: Path
) -> None:
    console = Console(record=True, width=300, file=io.StringIO())
    Terminal(console).introduce(check(load_config([f"output={tmp_path / 'run'}", *words])), "cpu", 1)
    text = console.export_text()
    assert ("cannot act:" in text) == bool(idle)
    assert not idle or (f"cannot act: {idle}:" in text and "train.minibatches_per_step=2 makes two" in text)
