"""A teacher: another model, or the policy behind a prompt that knows more; what it says of the sampled tokens."""

import json
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import parse
from rlzoo.commands import main
from rlzoo.config import Config, ModelConfig, TaskConfig, load_config
from rlzoo.errors import UserError
from rlzoo.experiment.check import check, check_teacher
from rlzoo.experiment.experiment import teacher_prompt
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.model.accelerator import make_accelerator
from rlzoo.model.policy import Policy, load_policy
from rlzoo.model.pretrained import EMBEDDED
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout.memory import Shape, teacher_shape
from rlzoo.tasks.base import Problem
from rlzoo.training.fit import arithmetic, predict
from rlzoo.training.run import load_trainer
from rlzoo.training.step import Trainer
from tests.conftest import error_of, save_tiny_model
from tests.training.recording import Recording, collected_by, rollouts, with_noise
from tests.training.test_ahead import SMALL, small

KNOWING = "task.teacher_prompt={answer}={prompt}"
SHIPPED = "model.teacher=embedded:sums"


def made(folder: Path, *words: str) -> AbstractContextManager[Trainer]:
    """A trainer of such a run."""
    config = small(f"output={folder}", *words)
    return load_trainer(check(config), make_accelerator("float32"), RunFolder(folder))


def log_probs(policy: Policy, prompt: list[int], tokens: list[int]) -> Tensor:
    """[T] of each token, from whole logits."""
    with torch.no_grad():
        logits = policy.model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1)[torch.arange(len(tokens)), torch.tensor(tokens)]


# ---- what it says ----------------------------------------------------------------------------------------------------


@pytest.fixture
def taught(tiny_model: Path, float64: None) -> Iterator[Recording]:
    """A trainer of a random policy with another one as its teacher, in float64."""
    words = ["objective=grpo-kl", "rollout.responses_per_prompt=4", "task.problems=8", "evaluation.problems=1"]
    experiment = check(load_config([f"model.name={tiny_model}", *words, "train.minibatches_per_step=1"]))
    policy = load_policy(experiment.config.model, experiment.tokenizer).double()
    teacher = with_noise(policy, 5)
    yield Recording(experiment, Accelerator(cpu=True), policy, None, sampler=None, teacher=teacher)


def test_its_log_probs_are_those_of_each_response_alone(taught: Recording) -> None:
    taught.config.train.tokens_per_micro_batch = 40
    sampled, batch = rollouts()
    found = taught.scored(collected_by(sampled, batch), frozenset({"logp_teacher"})).logp_teacher
    for row, tokens in enumerate(sampled.tokens.tolist()):
        prompt = list(sampled.prompts[int(sampled.prompt[row])])
        expected = log_probs(taught.teacher, prompt, tokens).where(sampled.mask[row], 0.0)
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("words", [[KNOWING], [KNOWING, SHIPPED], [KNOWING, "model.teacher=initial"]])
def test_a_prompt_that_knows_more_is_read_before_the_same_response(words: list[str], tmp_path: Path) -> None:
    with made(tmp_path, "objective=opd", "rollout.max_refills=0", *words) as trainer:
        collected = trainer.collect()
    found = trainer.scored(collected, frozenset({"logp_teacher"})).require("logp_teacher", "test")
    graded, encode = collected.examples[0], trainer.experiment.tokenizer.encode
    for row in range(len(collected.rank)):
        problem, length = graded.problem_of(row), int(graded.rollouts.lengths[row])
        tokens = graded.rollouts.tokens[row, :length].tolist()
        prompt = encode(f"{problem.answer}={problem.prompt}")
        torch.testing.assert_close(found[row, :length], log_probs(trainer.policy, prompt, tokens), rtol=1e-4, atol=1e-4)


def test_a_template_is_filled_where_it_says_and_nowhere_else() -> None:
    template = "{answer}, then {prompt} ({answer})"
    assert teacher_prompt(template, Problem("1", "what is {answer}?", "2")) == "2, then what is {answer}? (2)"
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    assert teacher_prompt(template, Problem("1", chat, "{prompt}")) == [
        chat[0],
        {"role": "user", "content": "{prompt}, then q ({prompt})"},
    ]
    begun = [*chat, {"role": "assistant", "content": "It is"}]
    assert teacher_prompt(template, Problem("1", begun, "2")) == [
        chat[0],
        {"role": "user", "content": "2, then q (2)"},
        begun[2],
    ]
    config, rendered = Config(task=TaskConfig(teacher_prompt=template)), [Problem("1", "<|im_start|>user", "2")]
    with pytest.raises(UserError, match=r"task.teacher_prompt=.* rendered with a chat template already"):
        check_teacher(config.model, config.task, config.rollout, load_tokenizer(config.model), rendered)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The key that names a model which differs a little from the policy at its start."""
    folder, config = tmp_path_factory.mktemp("teacher"), ModelConfig()
    with_noise(load_policy(config, load_tokenizer(config)), 7).save(folder)
    return f"model.teacher={folder}"


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_another_model_teaches_and_does_not_learn(other: str, tmp_path: Path) -> None:
    with made(tmp_path, "objective=opd", other) as trainer:
        before = [weight.clone() for weight in trainer.teacher.parameters()]
        for _ in range(2):
            assert trainer.step()[0]["groups_without_signal"] == 0
    assert all(map(torch.equal, before, trainer.teacher.parameters()))
    assert not any(weight.requires_grad for weight in trainer.teacher.parameters())
    assert not all(map(torch.equal, before, trainer.policy.parameters()))


@pytest.mark.slow
def test_a_run_goes_on_with_no_other_teacher(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "objective=opd", KNOWING, f"output={tmp_path / 'run'}", "train.steps=1"]
    assert main(["train", *words]) == 0
    capsys.readouterr()
    assert "model.teacher" in error_of(capsys, "train", *words, SHIPPED, "resume=true", "train.steps=2")
    other = [word.replace(KNOWING, "task.teacher_prompt={prompt}{answer};") for word in words]
    assert "task.teacher_prompt" in error_of(capsys, "train", *other, "resume=true", "train.steps=2")
    assert main(["inspect", str(tmp_path / "run"), "against=grpo"]) == 0
    (page,) = (tmp_path / "run" / "microscope").glob("*.html")
    assert "teacher_advantage" in page.read_text()


# ---- what is refused -------------------------------------------------------------------------------------------------

REFUSED = [
    (["objective=opd"], r"objective=opd: teacher_advantage needs a teacher; set model.teacher .* task.teacher_prompt"),
    (["objective=grpo", SHIPPED], r"model.teacher=embedded:sums has no effect: no part of grpo reads a teacher"),
    (["objective=grpo", KNOWING], r"task.teacher_prompt=\{answer\}=\{prompt\} has no effect: no part of grpo"),
    (["objective=opd", "model.teacher=embedded:knights"], r"model.teacher=embedded:knights has another vocabulary"),
    (["objective=grpo+kl", "model.reference=embedded:knights"], r"model.reference=embedded:knights has another vocab"),
    (["objective=opd", "model.teacher=embedded:knigths"], r"model.teacher=embedded:knigths: no such shipped model"),
    (["objective=opd", "model.teacher=./nowhere"], r"model.teacher=./nowhere: no such folder"),
    (["objective=opd", "task.teacher_prompt={answer}"], r"task.teacher_prompt='\{answer\}' has no \{prompt\}"),
    (["objective=opd", "task.teacher_prompt={prompt} "], r"says no more than the prompt; add \{answer\}"),
    (
        ["objective=opd", "task.teacher_prompt={answer}{prompt}{prompt}", "rollout.max_prompt_tokens=15"],
        r"the teacher's prompt \(task.teacher_prompt\) of problem \S+ has \d+ tokens, more than rollout.max_prompt_tok",
    ),
]


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_what_cannot_teach_or_has_no_effect_is_refused_before_a_model_loads(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        check(small(*words))


@pytest.mark.parametrize(("objective", "key"), [("opd", "model.teacher"), ("grpo+kl", "model.reference")])
def test_a_teacher_or_a_reference_of_a_shorter_context_is_refused(objective: str, key: str, tmp_path: Path) -> None:
    shutil.copytree(EMBEDDED / "sums", short := tmp_path / "short")
    values = json.loads((short / "config.json").read_text())
    (short / "config.json").write_text(json.dumps({**values, "max_position_embeddings": 16}))
    with pytest.raises(UserError, match=r"exceeds the context of .*short, 16 tokens"):
        check(small(f"objective={objective}", f"{key}={short}"))


# ---- what it takes ---------------------------------------------------------------------------------------------------


def test_its_weights_and_its_forward_pass_are_counted(tmp_path: Path) -> None:
    config, objective = small("objective=opd", f"model.teacher={save_tiny_model(tmp_path)}"), parse("opd")
    shape = Shape(2048, 8192, 24, 32, 8, 64, 100_000, tied=True)
    own = teacher_shape(config.model, shape)
    assert own is not None and own.hidden == 32
    for teacher in (own, shape):
        held = predict(config, shape, objective, 1, teacher)[0].parts["teacher"]
        assert held == 4.0 * teacher.parameters
    none, small_one, large = (arithmetic(config, shape, objective, teacher).scoring for teacher in (None, own, shape))
    assert none == large > small_one > none / 2
    assert teacher_shape(ModelConfig(teacher="initial"), shape) is shape
    assert teacher_shape(ModelConfig(), shape) is None
    assert "teacher" not in predict(small("objective=opd", KNOWING), shape, objective, 1)[0].parts
