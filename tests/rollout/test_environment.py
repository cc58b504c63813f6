"""Whose a row's tokens are and where its reward comes from is one place's knowledge, also of a task from outside."""

from pathlib import Path

import pytest

from rlzoo.config import GradeConfig, load_config
from rlzoo.config.recorded import RecordedKeys, check_recorded
from rlzoo.errors import UserError
from rlzoo.evaluation.grade_file import regrade
from rlzoo.experiment.check import check
from rlzoo.files import read_json_lines
from rlzoo.rollout.environment import environment_of
from rlzoo.rollout.sampler import SingleTurn
from tests.training.test_ahead import run, small

ECHO = f"{Path(__file__).parent / 'echo_task.py'}:Echo"


def test_a_task_has_one_turn_unless_its_class_says_otherwise() -> None:
    for name in ("arithmetic", "reasoning_gym:chain_sum", "openai/gsm8k"):
        assert environment_of(load_config([f"task.name={name}"]).task) is SingleTurn
    assert environment_of(load_config([f"task.name={ECHO}"]).task).__name__ == "Answering"


@pytest.mark.slow
def test_tokens_that_the_policy_did_not_choose_change_no_gradient_and_rewards_are_not_made_again(
    tmp_path: Path,
) -> None:
    words = ("train.steps=1", "objective=grpo-kl", "train.minibatches_per_step=3")
    folders = [run(tmp_path / f"{name[-4:]}", f"task.name={name}", *words) for name in ("sums", ECHO)]
    plain, echo = (read_json_lines(folder.metrics)[0] for folder in folders)
    for name in ("reward", "gradient_norm", "loss"):
        assert echo[name] == pytest.approx(plain[name], rel=1e-4), name

    (kept,) = sorted((folders[1].path / "evaluation").glob("step-000001*.jsonl"))
    with pytest.raises(UserError, match=r"cannot be graded again: the rewards of task.name=.*Echo .* rlzoo eval"):
        list(regrade([kept], GradeConfig(), [str(kept)]))
    (kept,) = sorted((folders[0].path / "evaluation").glob("step-000001*.jsonl"))
    (again,) = regrade([kept], GradeConfig())
    assert not again.changes


def test_an_engine_that_only_a_recorded_file_names_is_not_obeyed() -> None:
    recorded = RecordedKeys(Path("run/config.yaml"), {"rollout.engine": "./mine.py:MyEngine"})
    with pytest.raises(UserError, match=r"names code of its own, rollout.engine=./mine.py:MyEngine, and is not obeyed"):
        check_recorded([recorded])
    check_recorded([recorded], typed=[{"rollout.engine": "./mine.py:MyEngine"}])
    check_recorded([RecordedKeys(Path("run/config.yaml"), {"rollout.engine": "vllm"})])


def test_rewards_that_are_made_while_sampling_cannot_lie_in_a_checkpoint() -> None:
    check(small(f"task.name={ECHO}"))
    with pytest.raises(
        UserError, match=r"rollout.ahead=1: the environment of task.name=.*Echo .*leave rollout.ahead out"
    ):
        check(small(f"task.name={ECHO}", "rollout.ahead=1"))
