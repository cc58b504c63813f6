"""What every experiment of the package is held to, and what its task calls right; training is no part of it."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pytest

from objectives import FAILURE_MODES, parse
from rlzoo.config import Config, load_config
from rlzoo.config.words import key_and_value
from rlzoo.experiment.check import check
from rlzoo.lab.suite.experiment import BASE, Arm, Experiment, load_experiment, own_names
from rlzoo.lab.suite.lookup import TABLE, Lookup
from rlzoo.lab.suite.measures import Trained, pass_at
from rlzoo.lab.suite.training import make_start, run_cell
from rlzoo.tasks.base import Problem

EXPERIMENTS = {name: load_experiment(name) for name in own_names()}
TASKS: dict[str, Any] = {name: experiment.task for name, experiment in EXPERIMENTS.items()}


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of the right characters for each experiment, which has learnt nothing."""
    folder = tmp_path_factory.mktemp("starts")
    for name, experiment in EXPERIMENTS.items():
        make_start(replace(experiment, start=replace(experiment.start, steps=1)), folder / name)
    return {name: folder / name for name in EXPERIMENTS}


def config_of(experiment: Experiment, arm: Arm, model: Path) -> Config:
    task = experiment.task
    words: dict[str, Any] = {
        "task.name": f"{task.__module__}:{task.__qualname__}",
        "model.name": str(model),
        "objective": arm.objective,
        "output": str(model.parent / "no-run"),
        **experiment.keys(arm),
        "train.steps": 1,
        "evaluation.problems": 4,
    }
    return load_config([key_and_value(key, value) for key, value in words.items()])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_everything_that_an_experiment_names_is_there(name: str) -> None:
    experiment = EXPERIMENTS[name]
    named = [experiment.positive.arm, experiment.positive.against, *experiment.negative, BASE]
    named += [arm for claim in experiment.claims for arm in (claim.arm, claim.against)]
    assert experiment.name == name and experiment.failure_mode in FAILURE_MODES
    assert {*named} <= {*experiment.arms}
    assert len(experiment.claims) <= 3 and bool(experiment.claims) is not bool(experiment.scores)
    assert all(smallest > 0 for smallest in experiment.scores.values())
    assert all(claim.arm != claim.against and claim.smallest > 0 for claim in experiment.claims)
    assert all(claim.text.endswith(".") and claim.paper and claim.published for claim in experiment.claims)
    for arm in experiment.arms.values():
        parse(arm.objective)
        experiment.task(**config_of(experiment, arm, Path("start")).task.options)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_arms_of_the_negative_control_train_what_no_other_pair_does(name: str) -> None:
    """The failure mode is switched off in both, by the same keys, or the first does next to nothing to base."""
    experiment = EXPERIMENTS[name]
    one, other = (experiment.arms[arm] for arm in experiment.negative)
    assert one.settings == other.settings
    assert one.settings != experiment.arms[BASE].settings or experiment.negative[1] == BASE
    assert parse(one.objective).key != parse(other.objective).key


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_arm_can_be_trained(name: str, starts: dict[str, Path]) -> None:
    experiment = EXPERIMENTS[name]
    for arm in experiment.arms.values():
        check(config_of(experiment, arm, starts[name]))


def test_a_claim_differs_from_its_other_arm_in_the_objective_alone_or_in_the_keys_alone() -> None:
    for experiment in EXPERIMENTS.values():
        for claim in experiment.claims:
            one, other = experiment.arms[claim.arm], experiment.arms[claim.against]
            differ = [one.objective != other.objective, one.settings != other.settings]
            assert differ.count(True) == 1 or (experiment.name, claim.against) == (
                "nothing_to_learn_from",
                "as many rollouts",
            )


def demonstrated(name: str, count: int = 2000) -> Iterator[tuple[Problem, str]]:
    """Problems and demonstrations as the warm-up sees them behind its clean part."""
    experiment = EXPERIMENTS[name]
    task, rng = experiment.task(), random.Random(5)
    for problem in islice(task.to_demonstrate(1), count):
        yield problem, task.demonstration(problem, rng, experiment.start.slip_rate)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("rare_but_right", 0.47, 0.55),
        ("length_bias", 0.46, 0.54),
        ("many_epochs", 0.28, 0.37),
        ("spurious_tokens", 0.28, 0.37),
        ("nothing_to_learn_from", 0.42, 0.52),
        ("all_wrong_groups", 0.025, 0.05),
        ("easy_and_hard_mixed", 0.44, 0.52),
        ("forking_tokens", 0.08, 0.16),
        ("many_right_answers", 0.6, 0.7),
    ],
)
def test_demonstrations_are_right_as_often_as_the_experiment_says(name: str, least: float, most: float) -> None:
    task = TASKS[name]
    right = [task.right(problem, response) for problem, response in demonstrated(name)]
    assert least < sum(right) / len(right) < most


def test_both_ways_of_the_language_of_fillers_are_equally_long() -> None:
    lengths: dict[str, list[int]] = {"g": [], "w": []}
    for _, response in demonstrated("length_bias", 10_000):
        lengths[response[0]].append(len(response))
    right, wrong = (sum(it) / len(it) for it in lengths.values())
    assert 7 < right < 9 and abs(right - wrong) < 0.5


def test_the_useless_token_is_planted_behind_right_and_wrong_letters_alike() -> None:
    planted: dict[bool, list[bool]] = {True: [], False: []}
    task = TASKS["spurious_tokens"]
    for problem, response in demonstrated("spurious_tokens", 10_000):
        planted[task.right(problem, response)].append(response.endswith("_"))
    assert all(0.02 < sum(it) / len(it) < 0.04 for it in planted.values())


@pytest.mark.parametrize(
    ("name", "prompt", "right", "wrong"),
    [
        ("rare_but_right", "0042:", ["b!"], ["b", "a", "ah!", "bh", ""]),
        ("length_bias", "0042:", ["g", "g....."], ["w", "w,,", "g.,", "w..", ""]),
        ("many_epochs", "0042:", [TABLE["2"]], [TABLE["3"], TABLE["2"] * 2, ""]),
        ("spurious_tokens", "0042:", [TABLE["2"], TABLE["2"] + "_"], [TABLE["3"] + "_", TABLE["2"] + "__", "_"]),
        (
            "forking_tokens",
            "0042:",
            ["abcd0efgh1ijkl1mnop0"],
            ["abcd0efgh1ijkl1mnop1", "abcd0efgh1ijkl1mnoo0", "0110", ""],
        ),
        ("many_right_answers", "0042:", ["A", "E"], ["F", "AB", ""]),
        ("who_moves_the_policy", "0042:", ["abcd0efgh1ijkl1mnop1"], ["abcd1efgh1ijkl1mnop1", "1" * 20]),
        ("who_moves_the_policy", "1042:", ["1" * 11 + "0" * 9], ["10" * 10, ""]),
    ],
)
def test_right_and_wrong_answers_are_as_documented(name: str, prompt: str, right: list[str], wrong: list[str]) -> None:
    task, problem = TASKS[name], Problem(prompt, prompt, "")
    assert all(task.right(problem, response) for response in right)
    assert not any(task.right(problem, response) for response in wrong)


def test_prompts_that_are_not_live_are_right_or_wrong_whatever_is_answered() -> None:
    task = TASKS["nothing_to_learn_from"]
    problems = task().train[:2000]
    live = [p for p in problems if task.right(p, TABLE[str(p.prompt)[-2]]) and not task.right(p, "?")]
    always = [p for p in problems if task.right(p, "?")]
    assert 0.17 < len(live) / 2000 < 0.23 and 0.36 < len(always) / 2000 < 0.44
    assert all(task.right(p, TABLE[str(p.prompt)[-2]]) for p in task().held_out)


def test_a_graded_reward_is_the_whole_one_for_the_right_answer_alone() -> None:
    task = TASKS["all_wrong_groups"](partial=True)
    problem, letter = task.problem(2), TABLE["2"]
    rewards = [task.grader(problem, response).reward for response in (2 * letter, letter + "?", letter, "??", "")]
    assert rewards == [1, 0.5, 0, 0, 0]
    assert [task.grader(problem, response).correct for response in (2 * letter, letter + "?")] == [1, 0]


def test_verdicts_are_wrong_at_the_rate_and_reward_and_correctness_say_the_same() -> None:
    task = Lookup(flip=0.3)
    grades = [(task.grader(p, TABLE[str(p.prompt)[-2]]), task.grader(p, "?")) for p in task.train[:2000]]
    assert all(grade.reward == grade.correct for pair in grades for grade in pair)
    assert 0.27 < sum(right.reward == 0 for right, _ in grades) / 2000 < 0.33
    assert 0.27 < sum(wrong.reward == 1 for _, wrong in grades) / 2000 < 0.33


@pytest.mark.slow
def test_the_other_samplers_cell_trains_on_what_the_engine_samples_and_is_measured_by_the_policy_itself(
    tmp_path: Path,
) -> None:
    def measure(cell: Trained) -> dict[str, float]:
        end = cell.sample(1, cell.trainer.experiment.held_out[:64])
        exact = cell.trainer.policy(end.rollouts.responses(), 1.0).logp.detach()
        trained = cell.metrics[-1]["sampler/difference"]
        return {"trained": trained, "measured": float((end.rollouts.logp - exact).abs().max())}

    whole = EXPERIMENTS["another_sampler"]
    short = {**whole.settings, "train.steps": 2, "rollout.prompts_per_step": 32}
    experiment = replace(whole, measure=measure, settings=short, start=replace(whole.start, steps=200))
    make_start(experiment, tmp_path / "start")
    result = run_cell(experiment, experiment.arms[BASE], 0, tmp_path / "start")
    assert result.scores["trained"] > 0.5
    assert result.scores["measured"] < 1e-4


def test_pass_at_k_is_that_of_drawing_k_of_the_responses() -> None:
    right = [True, False, False, True, False, False, False, False]
    drawn = [any(right[first + place] for place in places) for first in (0, 4) for places in combinations(range(4), 2)]
    assert pass_at(2, right, 4) == pytest.approx(sum(drawn) / len(drawn))
