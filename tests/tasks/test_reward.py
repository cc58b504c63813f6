"""Rewards from outside: four forms, told apart by their signature, in the grader's processes, with one clear error."""

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlzoo.commands import main
from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.rollout.base import Rollouts
from rlzoo.rollout.sampler import Sampler
from rlzoo.tasks import Problem, load_task, load_to_grade
from rlzoo.tasks.base import Response
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.regrading import from_json, grading_keys, grading_task, to_json
from rlzoo.tasks.reward import RewardFunction, load_reward, load_rewards, name_of, rewarded
from tests.model.families import FAMILIES, tokenizer_of

REWARDS = """
import socket, time, urllib.request

def ours(response, gold, level):
    return float(response == gold) * level

def everything(response, **columns):
    return len(columns), columns["question"] == "1+1?" and columns["gold"] == "2" and columns["level"] == 3

def completion_first(completion, answer):
    return completion == answer

def trl(prompts, completions, level, **kwargs):
    assert kwargs["answer"] == ["2"] and prompts == ["1+1?"]
    return [float(completion == "2") * factor for completion, factor in zip(completions, level, strict=True)]

def trl_chat(completions, **kwargs):
    return [float(completion[0]["content"] == "2") for completion in completions]

async def trl_async(completions, **kwargs):
    return [0.5 for _ in completions]

def verl(data_source, solution_str, ground_truth, extra_info=None):
    assert data_source == "math" and extra_info == {"index": 7, "num_turns": None, "rollout_reward_scores": {}}
    return {"score": 1.0 if solution_str == ground_truth else -1.0, "acc": solution_str == ground_truth}

def verl_number(data_source, solution_str, ground_truth, extra_info=None):
    return 0.1 + 0.9 * (solution_str == ground_truth)

def verl_countdown(data_source, solution_str, ground_truth, extra_info=None):
    assert ground_truth["numbers"] == [1, 2] and extra_info == "from a book"
    return float(solution_str == str(ground_truth["target"]))

async def verl_async(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return float(solution_str == ground_truth)

def verl_batch(data_sources, solution_strs, ground_truths, extra_infos, **kwargs):
    return [float(text == truth) for text, truth in zip(solution_strs, ground_truths, strict=True)]

def openrlhf(queries, prompts, labels, **kwargs):
    right = [float(query[len(prompt):] == f"{label}</s>") for query, prompt, label in zip(queries, prompts, labels)]
    return {"rewards": [2 * one - 1 for one in right], "scores": right, "extra_logs": {"seen": len(prompts)}}

def openrlhf_number(queries, prompts, labels):
    return {"rewards": 3.0 * (queries == ["<s>1+1?2</s>"])}

def trl_ids(completion_ids):
    return [float(ids == [5, 6]) for ids in completion_ids]

def trl_all(**kwargs):
    kwargs["log_metric"]("seen", 1.0)
    return [float(text == "2") for text in kwargs["completions"]]

def trl_later(completions, trainer_state, **kwargs):
    return [trainer_state.global_step / trainer_state.max_steps] * len(completions)

def of_sums(completions, level, **kwargs):
    return [float(text == "2") if number == 3 else None for text, number in zip(completions, level)]

def of_words(response, level):
    return float(len(response)) if level == 4 else None

def of_nothing(completions, **kwargs):
    return [None] * len(completions)

def tagged(response, raw, begun, completion_ids):
    return float((raw, begun, completion_ids) == ("<a>2", "<think>", [5, 6]))

def by_place(response, /, gold):
    return float(response == gold)

def all_by_place(response, gold, /):
    return 1.0

def exits(response):
    raise SystemExit(0)

def half(response):
    return 0.5

def raises(response, **columns):
    return {}[response]

def returns(response, what):
    return {"nan": float("nan"), "inf": float("inf"), "text": "good", "none": None, "list": [1.0],
            "three": (1.0, 1.0, 1.0), "beyond": (1.0, 2.0)}[what]

def trl_returns(completions, what, **kwargs):
    return {"two": [1.0, 2.0], "no": [], "number": 1.0, "nan": [float("nan")], "none": [None], "text": "1"}[what[0]]

def verl_returns(data_source, solution_str, ground_truth, what="score"):
    return {"score": {"score": None}, "empty": {}, "none": None}[what]

def writes(response):
    open("evil", "w")
    return 1.0

def starts(response):
    import subprocess
    return float(subprocess.run(["echo", "1"], capture_output=True, text=True).stdout)

def starts_or_not(response):
    try:
        return starts(response)
    except Exception:
        return 0.25

def loads(response):
    import ctypes
    return float(ctypes.CDLL(None) is not None)

def opens(response):
    socket.socket().close()
    return 1.0

def sleeps(response):
    time.sleep(0 if not response else 60)
    return 3.0

def never(response):
    time.sleep(60)

def needs(response, reference_solution):
    return 1.0

def nothing():
    return 1.0

number = 5
"""
ROW = {"question": "1+1?", "answer": "2", "level": 3}
VERL = {
    "prompt": [{"role": "user", "content": "1+1?"}],
    "data_source": "math",
    "reward_model": {"ground_truth": "2"},
    "extra_info": {"index": 7},
}


@pytest.fixture(autouse=True)
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_rewards.py").write_text(REWARDS)
    monkeypatch.chdir(tmp_path)


def task(*rewards: str, row: dict[str, Any] = ROW, **keys: Any) -> Any:
    Path("data.jsonl").write_text(json.dumps(row) + "\n")
    written = [f"./my_rewards.py:{name}" for name in rewards]
    return load_task(TaskConfig("data.jsonl", reward=written, **keys))


def grades(*rewards: str, row: dict[str, Any] = ROW, **keys: Any) -> list[tuple[float, float]]:
    """Reward and correctness of the right answer, a wrong one and none."""
    made = task(*rewards, row=row, **keys)
    found = [made.grader(made.held_out[0], response) for response in ("2", "3", "")]
    return [(grade.reward, grade.correct) for grade in found]


@pytest.mark.parametrize(
    ("reward", "row", "expected"),
    [
        ("ours", ROW, [(3.0, 1.0), (0.0, 0.0), (0.0, 0.0)]),
        ("everything", ROW, [(5.0, 1.0)] * 3),
        ("by_place", ROW, [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0)]),
        ("completion_first", ROW, [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0)]),
        ("trl", ROW, [(3.0, 1.0), (0.0, 0.0), (0.0, 0.0)]),
        ("trl_chat", VERL, [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0)]),
        ("trl_async", ROW, [(0.5, 0.0)] * 3),
        ("verl", VERL, [(1.0, 1.0), (-1.0, 0.0), (-1.0, 0.0)]),
        ("trl_all", ROW, [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0)]),
        ("verl_async", VERL, [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0)]),
        ("verl_batch", VERL, [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0)]),
        ("verl_number", ROW, [(1.0, 1.0), (0.1, 0.0), (0.1, 0.0)]),
    ],
)
def test_each_form_is_known_by_its_signature(
    reward: str, row: dict[str, Any], expected: list[tuple[float, float]]
) -> None:
    assert grades(reward, row=row) == expected


def test_trls_completions_are_messages_where_a_system_prompt_makes_them_so() -> None:
    assert grades("trl_chat", system_prompt="Think.")[0] == (1.0, 1.0)


def test_weighted_rewards_are_added_and_the_first_correctness_that_is_said_counts() -> None:
    weights = [0.25, 2.0]
    assert grades("ours", "half", reward_weights=weights) == [(1.75, 1.0), (1.0, 0.0), (1.0, 0.0)]
    row = VERL | {"level": 3, "question": "", "prompt": VERL["prompt"]}
    assert grades("half", "verl", row=row) == [(1.5, 1.0), (-0.5, 0.0), (-0.5, 0.0)]


@pytest.mark.parametrize(("level", "expected"), [(3, 1.0), (4, 2.0)])
def test_a_function_that_has_no_say_in_a_row_is_left_out_of_the_sum(level: int, expected: float) -> None:
    made = task("of_sums", "of_words", row=ROW | {"level": level}, reward_weights=[1.0, 2.0])
    with GraderPool(made.grader) as pool:
        (graded,) = pool.grade(made.held_out[:1], ["2"])
    assert (graded.grade.reward, graded.grade.correct, graded.grade.is_scored) == (expected, 1.0, True)
    assert [math.isnan(reward) for reward in graded.grade.rewards] == [level == 4, level == 3]


def test_a_row_in_which_no_function_has_a_say_is_not_scored_which_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = task("of_nothing", "of_words")
    with GraderPool(made.grader) as pool:
        graded = pool.grade(made.held_out[:1] * 2, ["2"] * 2)
    assert [(it.grade.reward, it.grade.correct, it.grade.is_scored) for it in graded] == [(0.0, 0.0, False)] * 2
    assert caplog.text.count("task.reward gives None for a response to data/train/0") == 1


def test_rewards_get_tokens_raw_text_what_is_begun_and_the_step_where_they_ask() -> None:
    known = Response.of("2", [5, 6], "<a>2", 3, 4)
    for name in ("trl_ids", "tagged", "trl_later"):
        made = task(name)
        begun = replace(made.held_out[0], data={**made.held_out[0].data, "begun": "<think>"})
        with GraderPool(made.grader) as pool:
            assert pool.reads_tokens
            assert pool.grade([begun], [known])[0].grade.reward == (0.75 if name == "trl_later" else 1.0)
    assert not task("ours").grader.reads_tokens
    with pytest.raises(UserError, match="asks for completion_ids, and of a kept response only the text is known"):
        task("trl_ids").grader(made.held_out[0], "2")


def by_openrlhf(function: Callable[..., Any], prompt: str, action: str, label: str) -> tuple[float, float]:
    """Reward and score as OpenRLHF 3c3be62 has them (openrlhf/utils/agent.py, SingleTurnAgentExecutor.execute)."""
    rewards_info = [function([prompt + action], [prompt], [label])][0]
    score = rewards_info.get("scores")
    score = rewards_info.get("rewards") if score is None else score
    return float(torch.tensor([rewards_info.get("rewards")])), float(torch.tensor([score]))


@pytest.mark.parametrize("name", ["openrlhf", "openrlhf_number"])
@pytest.mark.parametrize("text", ["2", "3", ""])
def test_a_function_of_openrlhf_gets_and_gives_what_it_does_there(name: str, text: str) -> None:
    made = task(name)
    response = Response.of(text, [5, 6], f"{text}</s>", 0, 1, "<s>1+1?")
    with GraderPool(made.grader) as pool:
        assert pool.reads_tokens
        (graded,) = pool.grade(made.held_out[:1], [response])
    reward, score = by_openrlhf(made.rewards[0].function, "<s>1+1?", f"{text}</s>", "2")
    assert (graded.grade.reward, graded.grade.correct) == (reward, score if score <= 1 else float(reward >= 1))
    with pytest.raises(UserError, match="asks for queries, and of a kept response only the text is known"):
        made.grader(made.held_out[0], "2")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"reward": [1.0]}, "{'reward': [1.0]}"),
        (torch.tensor([1.0]), "tensor([1.])"),
        (torch.tensor(1.0), "tensor(1.)"),
        ([1.0], "[1.0]"),
        (None, "None"),
        ({"rewards": []}, "{'rewards': []}"),
        ({"rewards": torch.ones(2)}, "{'rewards': tensor([1., 1.])}"),
        ({"rewards": 10**400}, "{'rewards': 1000"),
        ({"rewards": 10**5000}, "a value of type dict"),
    ],
)
def test_what_openrlhf_would_not_take_is_one_error(value: Any, says: str) -> None:
    def returned(queries: Any, prompts: Any, labels: Any) -> Any:
        return value

    problem = task("openrlhf").held_out[0]
    with pytest.raises(UserError, match=r"returned .* it must return a dict with rewards, one number") as caught:
        RewardFunction("my:returned", returned)(problem, Response.of("2", [5], "2", 0, 0, "1+1?"))
    assert f"task.reward=my:returned returned {says}" in str(caught.value) and "\n" not in str(caught.value)


def test_a_number_that_no_float_can_hold_is_one_error() -> None:
    def huge(response: str, gold: str) -> int:
        return 10**400

    with pytest.raises(UserError, match=r"returned 1000.* it must return a number"):
        RewardFunction("my:huge", huge)(task("openrlhf").held_out[0], "2")


def test_the_query_of_openrlhf_is_the_text_of_all_tokens() -> None:
    tokenizer = tokenizer_of(FAMILIES["chatml"])
    problem = Problem("1", [{"role": "user", "content": "1+1?"}], "2")
    prompt, tokens = tokenizer.encode(problem.prompt), tokenizer.backend("2<|im_end|>")["input_ids"]
    ones = torch.ones(1, len(tokens))
    whole = {"prompt": torch.tensor([0]), "lengths": torch.tensor([len(tokens)]), "truncated": torch.tensor([False])}
    rows = {
        "tokens": torch.tensor([tokens]),
        "mask": ones.bool(),
        "logp": ones,
        "entropy": ones,
        "version": ones.long(),
    }
    rollouts, graders = Rollouts([prompt], **whole, **rows), SimpleNamespace(step=0, steps=1)
    (response,) = Sampler(None, graders, tokenizer)._with_tokens(["2"], rollouts)  # type: ignore[arg-type]
    assert isinstance(response, Response) and response.prompt.endswith("assistant\n")
    assert response.prompt + response.raw == tokenizer.backend.decode([*prompt, *tokens], skip_special_tokens=False)


@pytest.mark.parametrize("name", ["starts", "writes"])
def test_what_a_reward_must_not_do_is_refused_with_the_key_by_which_it_may(name: str) -> None:
    made = task(name)
    with GraderPool(made.grader) as pool, pytest.raises(UserError) as caught:
        pool.try_out(made.held_out)
    assert "set task.unconfined_reward=true, or ask a server (examples/judge.py)" in str(caught.value)
    assert not Path("evil").exists()
    with GraderPool(task(name, unconfined_reward=True).grader) as pool:
        assert pool.grade(made.held_out[:1], ["2"])[0].grade.reward == 1.0


def test_a_refusal_that_a_reward_keeps_to_itself_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    made = task("starts_or_not")
    with GraderPool(made.grader) as pool:
        assert [it.grade.reward for it in pool.grade(made.held_out[:1] * 3, ["2"] * 3)] == [0.25] * 3
    assert caplog.text.count("a grader wanted to call subprocess.Popen, which was refused, and went on without") == 1


def test_a_reward_may_load_libraries_as_torch_and_tokenizers_do() -> None:
    made = task("loads")
    with GraderPool(made.grader) as pool:
        assert pool.grade(made.held_out[:1], ["2"])[0].grade.reward == 1.0


def test_the_key_is_for_functions_of_task_reward_alone() -> None:
    for keys in ({}, {"environment": "./my_rewards.py:Mine"}):
        with pytest.raises(UserError, match=r"task\.unconfined_reward=true has no effect on"):
            load_rewards(TaskConfig("sums", unconfined_reward=True, **keys))


@pytest.mark.slow
def test_functions_that_have_no_say_in_some_rows_train(tiny_model: Path) -> None:
    rows = [{"question": f"{n}+1=", "answer": "2", "level": 3 + n % 3} for n in range(30)]
    Path("mixed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["train", "task.name=mixed.jsonl", "task.reward=[./my_rewards.py:of_sums,./my_rewards.py:of_words]"]
    few = ["train.steps=2", "rollout.prompts_per_step=8", "rollout.responses_per_prompt=2", "evaluation.problems=2"]
    few.append("rollout.max_response_tokens=24")
    for objective in ("grpo", "gdpo"):
        assert main([*words, *few, f"model.name={tiny_model}", f"objective={objective}", f"output={objective}"]) == 0
    assert len(Path("grpo/metrics.jsonl").read_text().splitlines()) == 2


def test_a_grade_keeps_the_rewards_that_it_adds_up() -> None:
    made = task("ours", "half", reward_weights=[0.25, 2.0])
    grade = made.grader(made.held_out[0], "2")
    assert grade.rewards == (3.0, 0.5) and grade.reward == 1.75
    assert task("ours").grader(made.held_out[0], "2").rewards == ()


def test_a_reward_needs_no_gold_answer() -> None:
    made = task("half", row={"question": "Sing."})
    assert made.held_out[0].answer == ""
    assert made.grader(made.held_out[0], "la").reward == 0.5


def test_verls_functions_get_a_ground_truth_that_is_no_text_as_the_row_has_it() -> None:
    row = VERL | {"reward_model": {"ground_truth": {"numbers": [1, 2], "target": 3}}, "extra_info": "from a book"}
    made = task("verl_countdown", row=row)
    assert made.held_out[0].answer == ""
    assert made.grader(made.held_out[0], "3").reward == 1.0


def test_a_task_of_ours_takes_a_reward_too() -> None:
    made = load_task(TaskConfig("sums", problems=4, reward=["./my_rewards.py:half"]))
    assert made.grader(made.train[0], "1").reward == 0.5


def test_a_function_itself_will_do_and_has_a_name_that_loads_it(tmp_path: Path) -> None:
    Path("data.jsonl").write_text(json.dumps(ROW) + "\n")
    base = load_task(TaskConfig("data.jsonl"))
    made = rewarded(base, TaskConfig("data.jsonl", reward=[module_reward]))  # type: ignore[list-item]
    assert made.grader(made.held_out[0], "2").reward == 1.0
    assert name_of(module_reward) == f"{__name__}:module_reward"
    assert load_reward(name_of(module_reward)).function is module_reward
    assert pickle.loads(pickle.dumps(made.grader))(made.held_out[0], "3").reward == 0.0


def module_reward(response: str, gold: str) -> float:
    return float(response == gold)


def test_kept_responses_are_graded_again_by_the_same_functions() -> None:
    made = task("ours", "half", reward_weights=[1.0, 2.0])
    record = json.loads(json.dumps({"keys": grading_keys(made.task.config), "data": to_json(made.held_out[0].data)}))
    problem = Problem("1", "1+1?", "2", from_json(record["data"]))
    assert grading_task(record["keys"]).grader(problem, "2").reward == 4.0


@pytest.mark.parametrize(
    ("reward", "what", "says"),
    [
        ("raises", "", "raised KeyError: '2' (my_rewards.py line"),
        ("exits", "", "raised SystemExit: 0 (my_rewards.py line"),
        ("returns", "nan", "returned nan"),
        ("returns", "inf", "returned inf"),
        ("returns", "text", "returned 'good'"),
        ("returns", "list", "returned [1.0]"),
        ("returns", "three", "returned (1.0, 1.0, 1.0)"),
        ("returns", "beyond", "returned (1.0, 2.0)"),
        ("trl_returns", "two", "returned [1.0, 2.0]"),
        ("trl_returns", "no", "returned []"),
        ("trl_returns", "number", "returned 1.0"),
        ("trl_returns", "nan", "returned [nan]"),
        ("trl_returns", "text", "returned '1'"),
        ("verl_returns", "score", "returned {'score': None}"),
    ],
)
def test_what_it_raises_or_returns_wrongly_is_one_error_that_shows_the_row(reward: str, what: str, says: str) -> None:
    made = task(reward, row=ROW | {"what": what})
    with GraderPool(made.grader) as pool, pytest.raises(UserError) as caught:
        pool.grade([made.held_out[0]] * 2, ["2"] * 2)
    message = str(caught.value)
    assert f"task.reward=./my_rewards.py:{reward} {says}" in message
    assert "'1+1?' (data/train/0)" in message and "response '2'" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"reward": ["./missing.py:f"]}, "there is no file ./missing.py"),
        ({"reward": ["./my_rewards.py:our"]}, "has no our; did you mean ours?"),
        ({"reward": ["my_missing_module:f"]}, "No module named 'my_missing_module'; go to the folder"),
        ({"reward": ["./broken.py:f"]}, "./broken.py cannot be imported: SyntaxError"),
        ({"reward": ["my_rewards"]}, "is neither my_module:name nor ./my_file.py:name"),
        ({"reward": ["./my_rewards.py:number"]}, "is 5, and not a function"),
        ({"reward": ["./my_rewards.py:nothing"]}, "takes no response"),
        ({"reward": ["./my_rewards.py:needs"]}, "asks for reference_solution, which no row has; the columns are quest"),
        ({"reward": ["./my_rewards.py:all_by_place"]}, "cannot be called with a response: "),
        ({"reward": ["builtins:int"]}, "does not say what it takes; write def reward("),
        ({"reward": ["./my_rewards.py:half"], "reward_weights": [1.0, 2.0]}, "are 2 for 1 functions in task.reward"),
        ({"reward": ["./my_rewards.py:half"], "wrong_reward": -1.0}, "task.wrong_reward=-1.0 has no effect"),
    ],
)
def test_a_reward_of_no_use_is_refused_before_anything_is_graded(keys: dict[str, Any], says: str) -> None:
    Path("broken.py").write_text("def f(:\n")
    Path("data.jsonl").write_text(json.dumps(ROW) + "\n")
    with pytest.raises(UserError) as caught:
        _ = load_task(TaskConfig("data.jsonl", **keys)).held_out
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("reward", ["opens", "sleeps", "writes"])
def test_it_runs_in_the_graders_processes_under_their_limits(reward: str) -> None:
    made = task(reward)
    with GraderPool(made.grader, timeout=2.0) as pool:
        if reward == "writes":
            with pytest.raises(UserError, match="must not write files"):
                pool.grade([made.held_out[0]], ["2"])
            assert not Path("evil").exists()
            return
        (graded,) = pool.grade([made.held_out[0]], ["2"])
    assert (graded.outcome, graded.grade.reward) == {"opens": ("graded", 1.0), "sleeps": ("timed_out", 3.0)}[reward]


@pytest.mark.slow
def test_one_that_is_too_slow_for_an_empty_response_names_the_limit() -> None:
    made = task("never")
    with GraderPool(made.grader, timeout=0.5) as pool, pytest.raises(UserError, match=r"task\.grader_timeout=0\.5"):
        pool.grade([made.held_out[0]], ["2"])


def test_what_no_other_process_can_load_is_refused_before_it_grades() -> None:
    local: Callable[..., float] = lambda response: 1.0  # noqa: E731
    made = rewarded(load_task(TaskConfig("sums")), TaskConfig(reward=[local]))  # type: ignore[list-item]
    with pytest.raises(UserError, match="at the top of a module"), GraderPool(made.grader):
        pass


def test_an_edited_file_is_read_again() -> None:
    before = load_reward("./my_rewards.py:half")
    Path("my_rewards.py").write_text("def half(response):\n    return 0.25\n")
    assert isinstance(before, RewardFunction)
    problem = Problem("1", "1+1?", "2")
    assert (before(problem, ""), load_reward("./my_rewards.py:half")(problem, "")) == ((0.5, None), (0.25, None))


def test_regrading_needs_no_dataset() -> None:
    assert load_to_grade(TaskConfig("gone.jsonl", reward=["./my_rewards.py:half"])).grader is not None
