import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlzoo.errors import UserError
from rlzoo.tasks.base import Problem
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.reasoning_gym import (
    DATASETS,
    DatasetScorer,
    GymDataset,
    ReasoningGym,
    extract_answer,
    load,
)

SINGLE_DIGIT_SUMS = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
ONE_QUESTION = {"min_n": 5, "max_n": 5}


def sums(**arguments: Any) -> ReasoningGym:
    return load("chain_sum", SINGLE_DIGIT_SUMS, **({"problems": 2000} | arguments))


def question(problem: Problem) -> str:
    assert not isinstance(problem.prompt, str)
    return problem.prompt[-1]["content"]


@pytest.mark.slow
def test_every_dataset_of_the_package_gives_its_own_answer_full_marks_bare_and_tagged() -> None:
    rejected = []
    for name in sorted(set(DATASETS) - {"composite"}):
        source = GymDataset(name, "{}")
        entry = source.stream(seed=3, size=1)[0]
        if not entry["answer"]:
            continue
        problem = Problem("0", "?", entry["answer"], {"entry": entry})
        for response in (entry["answer"], f"I thought of 3.\n<answer>\n{entry['answer']}\n</answer> Done: 4."):
            if DatasetScorer(source)(problem, response).correct != 1.0:
                rejected.append((name, response))
    assert rejected == []


def test_no_question_is_in_both_splits_even_where_there_are_two_hundred() -> None:
    held_out = {question(problem) for problem in sums().held_out}
    train = {question(problem) for seed in (0, 1, 2) for problem in sums(seed=seed).train}
    assert len(held_out) > 30 and len(train) > 100
    assert not held_out & train


def test_held_out_problems_are_distinct_and_the_same_for_every_seed() -> None:
    held_out = [load("chain_sum", {}, problems=10, held_out_problems=100, seed=seed).held_out for seed in (0, 5)]
    assert held_out[0] == held_out[1]
    assert len({question(problem) for problem in held_out[0]}) == 100


def test_training_problems_follow_from_the_seed_and_nothing_else() -> None:
    first, again, other = (sums(seed=seed).train for seed in (1, 1, 2))
    backwards = [again[i] for i in reversed(range(len(again)))][::-1]
    assert list(first) == backwards
    assert list(first) != list(other)
    assert first[3:5] == [first[3], first[4]] and first[-1] == first[len(first) - 1]
    with pytest.raises(IndexError):
        first[len(first)]


@pytest.mark.slow
def test_splits_are_the_same_in_every_process() -> None:
    code = (
        "from rlzoo.tasks.reasoning_gym import load\n"
        "task = load('gcd', {}, problems=50, held_out_problems=50)\n"
        "print([p.id for p in task.train], [p.id for p in task.held_out], task.train[0].prompt)"
    )
    outputs = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        outputs.add(run.stdout)
    assert len(outputs) == 1


def test_training_problems_are_made_only_when_asked_for() -> None:
    start = time.monotonic()
    task = load("chain_sum", {}, problems=10_000_000, held_out_problems=64)
    assert task.train[9_999_999].answer
    assert len(task.train) == 10_000_000
    assert time.monotonic() - start < 3


@pytest.mark.parametrize(
    ("response", "gold", "answer"),
    [
        ("<answer>1</answer> or <answer> 2 </answer>, not 3", "4", "2"),
        (r"<answer>1</answer> or \boxed{2}", "4", "1"),
        (r"\boxed{2}, not 3", "4", "2"),
        ("10 - 7 = 3.", "4", "3"),
        ("7-10=-3", "4", "-3"),
        ("it is 7-10", "4", "10"),
        ("1,234 it is", "4", "1234"),
        ("0.5 and .25", "0.1", ".25"),
        ("so 1.5e-3", "2e-4", "1.5e-3"),
        ("so 2/3", "1/2", "2/3"),
        ("none", "4", ""),
        ("so\n\n Friday \n", "Monday", "Friday"),
        ("the grid:\n1 2\n3 4", "4 3\n2 1", "1 2\n3 4"),
        ("C C", "", "C C"),
        ("<answer></answer> 4", "4", ""),
        ("", "4", ""),
        ("", "Monday", ""),
    ],
)
def test_the_answer_is_the_tagged_else_the_boxed_else_the_last(response: str, gold: str, answer: str) -> None:
    assert extract_answer(response, gold) == answer


@pytest.mark.parametrize(
    ("response", "wrong_reward", "reward", "correct"),
    [
        ("4", 0.0, 1.0, 1.0),
        ("4", -1.0, 1.0, 1.0),
        ("14", 0.0, 0.5, 0.0),
        ("14", -1.0, 0.0, 0.0),
        ("5", -1.0, -1.0, 0.0),
        ("", -1.0, -1.0, 0.0),
    ],
)
def test_partial_credit_is_reward_and_never_correctness(
    response: str, wrong_reward: float, reward: float, correct: float
) -> None:
    scorer = DatasetScorer(GymDataset("chain_sum", "{}"), wrong_reward)
    grade = scorer(Problem("0", "?", "4", {"entry": {"question": "2 + 2", "answer": "4", "metadata": {}}}), response)
    assert (grade.reward, grade.correct) == (reward, correct)


def test_a_scorer_that_raises_has_not_accepted_the_answer() -> None:
    source = GymDataset("prime_factorization", "{}")
    entry = source.stream(seed=0, size=1)[0]
    grade = DatasetScorer(source)(Problem("0", "?", entry["answer"], {"entry": entry}), "foo")
    assert (grade.reward, grade.correct) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["spiral_matrix", "countdown", "chain_sum"])
def test_hostile_answers_neither_act_nor_hang_nor_earn_anything(dataset: str, tmp_path: Path) -> None:
    source = GymDataset(dataset, "{}")
    entry = source.stream(seed=0, size=1)[0]
    evil = tmp_path / "evil"
    answers = [
        f"__import__('os').system('touch {evil}')",
        f"open('{evil}', 'w')",
        "exit()",
        "9**9**9**9",
        "(" * 50_000,
        "7" * 50_000,
        "<answer>" * 10_000,
    ]
    with GraderPool(DatasetScorer(source), workers=2, timeout=1) as pool:
        problems = [Problem("0", "?", entry["answer"], {"entry": entry})] * (len(answers) + 1)
        graded = pool.grade(problems, [*(f"<answer>{answer}</answer>" for answer in answers), entry["answer"]])
    assert [g.grade.correct for g in graded] == [0.0] * len(answers) + [1.0]
    assert max(g.grade.reward for g in graded[:-1]) <= 0.05
    assert not evil.exists()


@pytest.mark.parametrize(
    ("dataset", "options", "arguments", "message"),
    [
        ("chain_sums", {}, {}, r"chain_sums is not a dataset of reasoning-gym; did you mean chain_sum"),
        ("chain_sum", {"min_term": 2}, {}, r"task\.options\.min_term .* did you mean min_terms"),
        ("chain_sum", {"seed": 2}, {}, r"task\.options\.seed "),
        ("chain_sum", {"size": 2}, {}, r"task\.options\.size "),
        ("chain_sum", {"min_terms": 5, "max_terms": 2}, {}, r"task\.options=.*do not suit reasoning_gym:chain_sum"),
        ("chain_sum", {"min_terms": "many"}, {}, r"task\.options=.*do not suit reasoning_gym:chain_sum"),
        ("composite", {}, {}, r"composite: Must specify at least one dataset"),
        ("count_primes", ONE_QUESTION, {}, r"too few different questions"),
    ],
)
def test_a_mistake_is_one_clear_error(
    dataset: str, options: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load(dataset, options, problems=100, **arguments)
    assert "\n" not in str(caught.value)
