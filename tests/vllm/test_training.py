"""Training comes to the same whichever engine samples, and whether it was interrupted or not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoTokenizer
from vllm import LLM, SamplingParams

from rlzoo.config import load_config
from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.evaluate import read_evaluations
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.report.terminal import Terminal
from rlzoo.training.run import train

ENGINES = ("vllm", "transformers")
TRAIN = (
    sys.executable,
    "-m",
    "rlzoo",
    "train",
    "configs/smollm2.yaml",
    "objective=stapo+clip_higher",
    "model.precision=float32",
    "rollout.prompts_per_step=8",
    "train.steps=10",
    "train.learning_rate=3e-5",
    "train.warmup_steps=1",
    "evaluation.problems=64",
)


@pytest.mark.timeout(1200)
@pytest.mark.slow
def test_ten_steps_on_a_real_model_reach_the_same_accuracy(tmp_path: Path) -> None:
    repository = Path(__file__).parents[2]
    runs = [
        subprocess.Popen(
            [*TRAIN, f"rollout.engine={name}", f"output={tmp_path / name}"],
            cwd=repository,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ENGINES
    ]
    for run in runs:
        complaints = run.communicate()[1]
        assert run.returncode == 0 and "Traceback" not in complaints, complaints
    found = [read_evaluations(RunFolder(tmp_path / name), Decoding(1.0, 1.0)) for name in ENGINES]
    for evaluations in found:
        assert evaluations[10].accuracy.low > evaluations[0].accuracy.high, "nothing was learnt, so nothing is compared"
    for step in (0, 10):
        one, other = (evaluations[step].accuracy for evaluations in found)
        assert one.low <= other.high and other.low <= one.high, (one, other)


def small(folder: Path, *words: str) -> str:
    """The metrics of a run of seconds on the embedded model."""
    sizes = ("rollout.prompts_per_step=8", "rollout.kv_cache_gib=0.5", "evaluation.problems=8")
    config = load_config(["rollout.engine=vllm", "train.learning_rate=1e-3", *sizes, f"output={folder}", *words])
    return train(config, Terminal(Console(quiet=True))).metrics.read_text()


def test_a_checkpoint_is_a_folder_that_vllm_loads(tmp_path: Path) -> None:
    small(tmp_path / "run", "train.steps=1")
    checkpoint = RunFolder(tmp_path / "run").last_checkpoint()
    model = LLM(str(checkpoint), dtype="float32", enforce_eager=True, max_model_len=64, kv_cache_memory_bytes=2**28)
    (answer,) = model.generate("12+34=", SamplingParams(temperature=0.0, max_tokens=8))
    mine, tokenizer = AutoModelForCausalLM.from_pretrained(checkpoint), AutoTokenizer.from_pretrained(checkpoint)
    prompt = tokenizer("12+34=", return_tensors="pt")
    tokens = mine.generate(**prompt, max_new_tokens=8, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert answer.outputs[0].text == tokenizer.decode(tokens, skip_special_tokens=True)


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    whole = small(tmp_path / "whole", "train.steps=3")
    small(tmp_path / "parts", "train.steps=2")
    assert small(tmp_path / "parts", "train.steps=3", "resume=true") == whole
