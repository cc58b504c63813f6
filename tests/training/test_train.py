"""The loop: every objective trains, a run leaves what it promises, and nothing depends on being interrupted."""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from objectives import TokenBatch
from objectives.parts.advantages import DynamicSampling
from rlzoo.config import Config, load_config
from rlzoo.config.command_keys import InspectConfig
from rlzoo.config.decoding import Decoding
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import read_evaluations
from rlzoo.experiment.check import check
from rlzoo.experiment.claim import claim
from rlzoo.experiment.progress import ADAPTERS, AHEAD, BEGUN, OPTIMIZER, PROGRESS, checkpoints
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines
from rlzoo.inspecting.microscope import inspect_run
from rlzoo.model.accelerator import make_accelerator
from rlzoo.report.run_files import write_reports
from rlzoo.report.terminal import Terminal
from rlzoo.signals import Interrupted
from rlzoo.training import run as loop
from rlzoo.training.run import load_trainer, train
from rlzoo.training.step import Trainer
from tests.conftest import interruptible
from tests.objectives.zoo_names import of_one_turn, taught
from tests.objectives.zoo_sample import RECIPES, SAMPLE_PAIRS, fitting
from tests.thinned import thinned

EIGHT = ["grpo", "dapo", "entropy20", "justrl", "advantage_reweighting", "lopti", "stare", "stapo"]
SMALL = (
    "rollout.prompts_per_step=4",
    "rollout.responses_per_prompt=4",
    "rollout.max_refills=50",
    "train.minibatches_per_step=2",
    "train.tokens_per_micro_batch=200",
    "train.learning_rate=1e-4",
    "evaluation.problems=4",
    "evaluation.samples=2",
)


def small(folder: Path, *words: str) -> Config:
    """A run of seconds on the embedded model."""
    return load_config([*SMALL, f"output={folder}", *words])


def run(folder: Path, *words: str) -> RunFolder:
    """Trains silently."""
    return train(small(folder, *words), Terminal(Console(quiet=True)), write_reports)


@pytest.mark.parametrize(
    "objective",
    [
        *EIGHT,
        *thinned([name for name in of_one_turn(fitting(4, RECIPES)) if name not in EIGHT], fast=0, slow=4),
        *thinned(of_one_turn(fitting(4, SAMPLE_PAIRS)), fast=0, slow=26),
        "justrl+unbiased_kl",
    ],
)
def test_every_recipe_and_some_pairs_of_them_train_three_steps(objective: str, tmp_path: Path) -> None:
    config = small(tmp_path / "run", f"objective={objective}", "train.steps=3", *taught(objective))
    with load_trainer(check(config), make_accelerator(config.model.precision), RunFolder(tmp_path / "run")) as trainer:
        before = [parameter.detach().clone() for parameter in trainer.policy.parameters()]
        metrics = [trainer.step()[0] for _ in range(3)]
        assert all(step["updates_skipped"] == 0 for step in metrics)
        assert any(step["gradient_norm"] > 0 for step in metrics)
        after = list(trainer.policy.parameters())
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert all(torch.isfinite(parameter).all() for parameter in after)


def test_every_round_of_rollouts_is_selected_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    selected: list[int] = []

    def counted(part: DynamicSampling, batch: TokenBatch, selects: Any = DynamicSampling.selects) -> Tensor:
        selected.append(len(batch.mask))
        return selects(part, batch)

    monkeypatch.setattr(DynamicSampling, "selects", counted)
    config = small(tmp_path / "run", "objective=dapo", "train.steps=1")
    experiment = check(config)
    selected.clear()  # of the trial before anything starts
    with load_trainer(experiment, make_accelerator(config.model.precision), RunFolder(tmp_path / "run")) as trainer:
        _, collected = trainer.step()
    assert selected == [len(graded.texts) for graded in collected.examples]


def test_what_was_sampled_is_recorded_whatever_is_dropped(tmp_path: Path) -> None:
    """Of every response, the groups that dynamic sampling drops among them."""
    config = small(tmp_path / "run", "objective=dapo", "train.steps=1", "rollout.responses_per_prompt=2", "seed=1")
    with load_trainer(check(config), make_accelerator(config.model.precision), RunFolder(tmp_path / "run")) as trainer:
        metrics, collected = trainer.step()
        timings = loop._timings(trainer, collected, 1.0)
    correct = torch.cat([graded.correct for graded in collected.examples])
    assert metrics["groups_dropped"] > 0 and len(correct) > len(collected.reward)
    assert metrics["sampled/accuracy"] == pytest.approx(correct.double().mean().item())
    tokens = sum(int(graded.rollouts.mask.sum()) for graded in collected.examples)
    prompts = sum(len(prompt) for graded in collected.examples for prompt in graded.rollouts.prompts)
    assert metrics["sampled/tokens"] == timings["tokens"] == tokens
    assert timings["generate_positions"] == prompts + tokens


def test_a_run_leaves_what_it_promises(tmp_path: Path) -> None:
    words = ("train.steps=3", "evaluation.every=2", "evaluation.decodings=[1/1,0.7/0.9]", "log.trackers=[tensorboard]")
    folder = run(tmp_path / "run", *words, "log.response_steps=1")
    metrics = read_json_lines(folder.metrics)
    assert [line["step"] for line in metrics] == [1, 2, 3]
    assert {"reward", "accuracy", "entropy", "length", "gradient_norm", "touched/s2t/tokens"} <= metrics[0].keys()
    assert [line["step"] for line in read_json_lines(folder.timings)] == [1, 2, 3]
    assert [line["step"] for line in read_json_lines(folder.responses)] == [3] * 4
    for decoding in (Decoding(1.0, 1.0), Decoding(0.7, 0.9)):
        evaluations = read_evaluations(folder, decoding)
        assert sorted(evaluations) == [0, 2, 3]
        assert len(evaluations[3].records) == 4 * 2
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    recorded = json.loads((folder / "environment.json").read_text())["torch"]
    assert recorded.partition("+")[0] == torch.__version__.partition("+")[0]  # a wheel may leave out which build it is
    assert load_config([str(folder.config)]) == small(tmp_path / "run", *words, "log.response_steps=1")
    assert list(folder.path.rglob("events.out.tfevents*"))
    checkpoint = folder.last_checkpoint()
    model, tokenizer = AutoModelForCausalLM.from_pretrained(checkpoint), AutoTokenizer.from_pretrained(checkpoint)
    output = model.generate(**tokenizer("12+345=", return_tensors="pt"), max_new_tokens=8, do_sample=False)
    assert "12+345=" in tokenizer.decode(output[0])


@pytest.mark.smoke
@pytest.mark.slow
def test_the_same_seed_gives_the_same_metrics_and_another_seed_others(tmp_path: Path) -> None:
    first, second, other = (
        run(tmp_path / name, "train.steps=2", f"seed={seed}").metrics.read_text()
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first == second != other


KNOWING = "task.teacher_prompt={answer}={prompt}"
RESUMED: dict[str, tuple[str, ...]] = {
    "default": ("objective=lopti+stare(adaptive=true)",),
    "masks": ("objective=stapo",),
    "refills": ("objective=grpo+dynamic_sampling",),
    "no masks in rows": ("objective=stapo+clip_higher+kl", "model.attention=varlen"),
    "ahead": ("objective=grpo+dynamic_sampling", "rollout.ahead=1"),
    "parts": ("objective=lopti+stare(adaptive=true)", "rollout.partial_tokens=4"),
    "teacher": ("objective=rlsd", KNOWING),
    "teacher of its own, ahead": ("objective=opd", "model.teacher=initial", "rollout.ahead=1"),
    "adapters": ("objective=grpo+kl", "model.lora.rank=4", "train.learning_rate=1e-2"),
}


@pytest.mark.parametrize("setting", thinned([*RESUMED], fast=len(RESUMED)))
def test_a_resumed_run_is_bitwise_the_run_that_was_not_stopped(setting: str, tmp_path: Path) -> None:
    often = ("checkpoint.every=1", "checkpoint.keep=9", "task.problems=40", "log.responses=16")
    words = (*RESUMED[setting], *often)
    whole = run(tmp_path / "whole", "train.steps=4", *words)
    run(tmp_path / "parts", "train.steps=2", *words)
    parts = run(tmp_path / "parts", "train.steps=4", "resume=true", *words)
    assert parts.metrics.read_bytes() == whole.metrics.read_bytes()
    last = [folder / "checkpoints" / "step-000004" for folder in (parts, whole)]
    names = sorted(str(path.relative_to(last[0])) for path in last[0].rglob("*.safetensors"))
    assert {"model.safetensors", OPTIMIZER} <= {*names}
    assert (AHEAD in names) == ("rollout.ahead=1" in words) and (BEGUN in names) == (setting == "parts")
    assert (ADAPTERS in names) == (setting == "adapters")
    for name in (*names, PROGRESS):
        assert (last[0] / name).read_bytes() == (last[1] / name).read_bytes(), name
    recorded = inspect_run(str(whole.path), InspectConfig(step=2)).recorded
    assert recorded and all(recorded), "the microscope sees other rollouts than training"


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        "step",
        pytest.param("evaluating", marks=pytest.mark.slow),
        pytest.param("save_checkpoint", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_ctrl_c_ends_goes_on_as_if_it_had_not_been_interrupted(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("objective=lopti+stare(adaptive=true)", "checkpoint.every=0", "evaluation.every=2", "train.steps=4")
    whole = run(tmp_path / "whole", *words)
    owner: Any = {"step": Trainer, "evaluating": Terminal, "save_checkpoint": loop}[moment]
    original, calls = getattr(owner, moment), iter(range(99))

    def interrupted(*arguments: object, **options: object) -> Any:
        if next(calls) == 1 or moment == "save_checkpoint":
            monkeypatch.setattr(owner, moment, original)
            signal.raise_signal(signal.SIGINT)
        return original(*arguments, **options)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have set to be ignored
    monkeypatch.setattr(owner, moment, interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"step \d is saved; resume=true goes on"):
        run(tmp_path / "parts", *words)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, handler)
    parts = RunFolder(tmp_path / "parts")
    assert len(checkpoints(parts / "checkpoints")) == 1
    assert len(read_json_lines(parts.metrics)) == (4 if moment == "save_checkpoint" else 2)
    run(parts.path, *words, "resume=true")
    for name in ("metrics.jsonl", f"checkpoints/step-000004/{OPTIMIZER}", "evaluation/step-000004-T1-p1.jsonl"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_scheduler_or_a_terminal_that_ends_a_run_finds_its_last_step_saved(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, before = Trainer.step, signal.signal(number, signal.SIG_DFL)  # nohup ignores it

    def ended(trainer: Trainer) -> Any:
        signal.raise_signal(number)
        collected = original(trainer)
        signal.raise_signal(signal.SIGTERM)  # Slurm's reaches a rank, and so does torchrun's
        return collected

    monkeypatch.setattr(Trainer, "step", ended)
    with pytest.raises(Interrupted, match="step 1 is saved; resume=true goes on") as interruption:
        run(tmp_path / "run", "train.steps=9", "checkpoint.every=0")
    assert interruption.value.number == number and signal.getsignal(number) is signal.SIG_DFL
    signal.signal(number, before)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.slow
def test_a_judge_that_is_gone_costs_no_step_that_was_done(
    begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("objective=lopti+stare(adaptive=true)", "checkpoint.every=0", "train.steps=3")
    whole = run(tmp_path / "whole", *words)
    method = "_update" if begun else "collect"
    original, calls = getattr(Trainer, method), iter(range(99))

    def gone(trainer: Trainer, *arguments: Any) -> Any:
        if trainer.progress.step == 2 and next(calls) == int(begun):
            raise UserError("task.reward=judge.py: it cannot be reached")
        return original(trainer, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, method, gone)
        with pytest.raises(UserError, match="cannot be reached$" if begun else "reached; step 2 is saved; resume=true"):
            run(tmp_path / "parts", *words)
    parts = RunFolder(tmp_path / "parts")
    assert len(checkpoints(parts / "checkpoints")) == (0 if begun else 1)
    run(parts.path, *words, "resume=true")
    assert parts.metrics.read_bytes() == whole.metrics.read_bytes()


def test_a_second_ctrl_c_ends_a_step_at_once_and_saves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(trainer: Trainer) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(Trainer, "step", step)
    with pytest.raises(KeyboardInterrupt, match="no step is saved; resume=true begins with the first"):
        run(tmp_path / "run", "train.steps=2")
    signal.signal(signal.SIGINT, handler)
    assert RunFolder(tmp_path / "run").last_checkpoint() is None


@pytest.mark.slow
def test_a_start_that_failed_is_no_run_and_a_corrected_one_takes_its_folder(tmp_path: Path) -> None:
    whole, folder = run(tmp_path / "whole", "train.steps=1", "objective=grpo"), tmp_path / "run"
    with pytest.raises(UserError, match=r"model\.attention=flash"):
        run(folder, "train.steps=1", "objective=stapo", "model.attention=flash_attention_2")
    assert run(folder, "train.steps=1", "objective=grpo").metrics.read_text() == whole.metrics.read_text()
    with pytest.raises(UserError, match="holds a run already"):
        run(folder, "train.steps=1", "objective=grpo")


@pytest.mark.slow
def test_before_the_first_step_a_resumed_run_may_have_another_objective_but_not_another_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(trainer: Trainer) -> None:
        raise ZeroDivisionError

    words, folder = ("train.steps=1", "train.learning_rate=2e-4", "objective=grpo"), tmp_path / "run"
    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(Trainer, "step", fail)
        run(folder, "train.steps=1", "objective=stapo")
    evaluation = RunFolder(folder).evaluation(0, Decoding(1.0, 1.0))
    made = evaluation.stat().st_mtime_ns
    with pytest.raises(UserError, match=r"task\.problems=7, but the run in"):
        run(folder, *words, "resume=true", "task.problems=7")
    resumed = run(folder, *words, "resume=true")
    assert resumed.metrics.read_text() == run(tmp_path / "whole", *words).metrics.read_text()
    assert evaluation.stat().st_mtime_ns == made


@pytest.mark.slow
def test_two_processes_never_write_the_same_run(tmp_path: Path) -> None:
    config = small(tmp_path / "run", "train.steps=1", "resume=true")
    with claim(RunFolder(tmp_path / "run"), config), pytest.raises(UserError, match="another process"):
        run(tmp_path / "run", "train.steps=1", "resume=true")
    assert run(tmp_path / "run", "train.steps=1", "resume=true").finished(config)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.smoke)])
def test_an_interrupted_run_is_whole_and_goes_on(ending: signal.Signals, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    words = ("checkpoint.every=1" if ending == signal.SIGKILL else "checkpoint.every=0", "checkpoint.keep=9")
    command = [sys.executable, "-m", "rlzoo", "train", *SMALL, f"output={folder.path}", "train.steps=500", *words]
    process = interruptible(command)
    while len(read_json_lines(folder.metrics)) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    started = time.perf_counter()
    process.send_signal(ending)
    _, error = process.communicate(timeout=600)
    if ending == signal.SIGINT:
        assert process.returncode == 130 and "resume=true" in error and "Traceback" not in error
        assert time.perf_counter() - started < 20
    done = len(read_json_lines(folder.metrics))
    assert folder.metrics.read_text().count("\n") == done >= 3
    checkpoint = folder.last_checkpoint()
    assert checkpoint is not None
    AutoModelForCausalLM.from_pretrained(checkpoint)
    steps = int(checkpoint.name.removeprefix("step-")) + 1
    run(folder.path, f"train.steps={steps}", "resume=true", *words)
    whole = run(tmp_path / "whole", f"train.steps={steps}", *words)
    assert folder.metrics.read_text() == whole.metrics.read_text()
