"""The papers' configurations on the pretended device: they pass every check up to the download, and train."""

from pathlib import Path

import datasets
import pytest

from rlzoo.commands import main
from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.experiment.experiment import Experiment
from rlzoo.files import read_json_lines
from rlzoo.model.flops import SIZES
from rlzoo.rollout import vllm_engine
from rlzoo.tasks.text import question
from tests.simulated_device import SimulatedDevice
from tests.simulated_device.paper_stand_ins import CONFIGS, TURN_END, stand_ins
from tests.thinned import thinned

SHORT = (
    "rollout.engine=transformers",  # vLLM has no pretended device
    "rollout.kv_cache_gib=null",
    "rollout.prompts_per_step=2",
    "rollout.responses_per_prompt=4",
    "rollout.max_refills=20",
    "rollout.max_response_tokens=6",
    "train.steps=1",
    "train.minibatches_per_step=1",
    "train.tokens_per_micro_batch=2000",
    "evaluation.problems=2",
    "evaluation.samples=1",
    "evaluation.every=0",
    "task.grader_workers=1",
    "task.grade_truncated=true",
)

VARIED = """
def vary(response, gold):
    return float(sum(response.encode()) % 2)
"""
"""A reward of which a random model gets some."""


@pytest.fixture(autouse=True)
def of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept in the user's cache; whether vLLM is installed is no matter of a configuration."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(vllm_engine, "_check_installation", lambda *_: None)
    monkeypatch.setitem(SIZES, "cuda", (64,))


def checked(paper: str, folder: Path) -> Experiment:
    with SimulatedDevice():
        return check(load_config([*stand_ins(paper, folder), f"output={folder / 'run'}"]))


@pytest.mark.parametrize("paper", CONFIGS)
def test_a_papers_configuration_passes_every_check_up_to_the_download(paper: str, tmp_path: Path) -> None:
    found = checked(paper, tmp_path)
    asked = load_config([str(CONFIGS[paper])])
    assert found.config.rollout == asked.rollout and found.config.train == asked.train
    assert len(found.tokenizer.stop_tokens) == 1 + found.tokenizer.uses_template
    assert all(problem.answer for problem in [*found.task.train, *found.held_out])


def test_the_math_papers_ask_for_a_box_behind_what_the_dataset_asks_for(tmp_path: Path) -> None:
    for paper, begins in (("stapo_qwen3_1.7b", "Solve the following"), ("stare_qwen2.5_math_7b", "What is")):
        found = checked(paper, tmp_path / paper)
        problem = found.task.train[0]
        assert question(problem.prompt).startswith(begins) and question(problem.prompt).endswith("within \\boxed{}.")
        right = found.task.grader(problem, rf"So \boxed{{{problem.answer}}}")
        wrong = found.task.grader(problem, f"Answer: {problem.answer}")
        assert (right.reward, wrong.reward) == (1.0, found.config.task.wrong_reward)
        assert len(found.held_out) == 30 and found.held_out[0].answer == "100"
        assert TURN_END in {found.tokenizer.piece(token) for token in found.tokenizer.stop_tokens}


def test_prompts_that_are_rendered_already_get_no_second_template(tmp_path: Path) -> None:
    found = checked("lopti_qwen2.5_3b", tmp_path)
    problem = found.task.train[0]
    assert found.tokenizer.backend.decode(found.tokenizer.encode(problem.prompt)) == question(problem.prompt)
    right = "</think> <answer> (1) Ann is a knave (2) Bob is a knight </answer>"
    assert found.task.grader(problem, right).correct == 1.0
    assert found.task.grader(problem, right.replace("knave", "knight")).correct == 0.0


@pytest.mark.parametrize("paper", thinned(CONFIGS, fast=0, slow=3))
def test_a_papers_configuration_trains_and_is_evaluated_on_the_device(paper: str, tmp_path: Path) -> None:
    (tmp_path / "vary.py").write_text(VARIED)
    words = [*stand_ins(paper, tmp_path), *SHORT, f"task.reward={tmp_path / 'vary.py'}:vary", "task.wrong_reward=0"]
    with SimulatedDevice():
        assert main(["train", *words, f"output={tmp_path / 'run'}"]) == 0
    (line,) = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert line["gradient_norm"] > 0 and line["updates_skipped"] == 0
