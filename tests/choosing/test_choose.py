"""Questions of users are answered, with what was measured; what is shown can be typed, and is what it says."""

import io
import json
from functools import cache
from pathlib import Path

import pytest
import torch
from rich.console import Console

import rlzoo
from objectives import TROUBLES, ObjectiveError, Weight, names, parse, register, with_examples
from rlzoo.choosing.advice import ADVICE, QUANTITIES
from rlzoo.choosing.choose import Choice, choose
from rlzoo.choosing.remedies import shown_by
from rlzoo.choosing.understanding import likeness, named_in
from rlzoo.commands import main
from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.report.choice import print_choice
from rlzoo.training.metrics import sampler_difference
from tests.conftest import error_of
from tests.objectives.batches import random_case, token_batch

QUESTIONS = {
    "huggingface/trl#3452": ("GRPO reward=0 and loss=0", "zero_loss"),
    "huggingface/open-r1#239": (
        "Why does the loss start at 0 when I train GRPO, and then possibly increase?",
        "zero_loss",
    ),
    "huggingface/trl#3857": ("'reward_std': 0.0, 'frac_reward_zero_std': 1.0", "dead_groups"),
    "zhangxy-2019/critique-GRPO#2": (
        "Entropy Collapse & Model Repetition inTraining: Seeking Optimization Tips",
        "entropy_collapse",
    ),
    "verl-project/verl#2738": ("What Causes the Unexpected Increase in Entropy During Training?", "entropy_explosion"),
    "PeterGriffinJin/Search-R1#162": (
        "Response become garbled in later stages of GRPO training",
        "entropy_explosion",
    ),
    "huggingface/trl#4772": (
        "vllm_importance_sampling_correction causes vllm_importance_sampling_ratio explosion",
        "engine_mismatch",
    ),
    "huggingface/trl#2703": ("So GRPO is a length biased algorithm?", "length_growth"),
    "huggingface/trl#3120": ("why GRPO Train loss clip_ratio always zero?", "many_epochs"),
    "huggingface/trl#3197": ("GRPO - Multiple Policy updates for one completion is not desired", "many_epochs"),
    "huggingface/trl#5697": (
        "Bug: GRPO quickstart `max_completion_length=256` default silently breaks training",
        "truncation",
    ),
    "huggingface/open-r1#407": ("GRPO reward hacking", "noisy_rewards"),
    "PeterGriffinJin/Search-R1#112": ("CUDA out of memory", "memory"),
    "THUDM/slime#1800": (
        "Enhanced Off-Policy Async Rollout with Staleness Control and Partial Rollout Support",
        "stale_rollouts",
    ),
    "NVIDIA/Megatron-LM#4256": ("RL training MoE models: ~10% of routers disagree", "mixture_of_experts"),
    "which of two": ("which of GRPO and Dr. GRPO", "length_growth"),
    "step 50": ("my entropy collapses at step 50", "entropy_collapse"),
}
"""A thread of users on GitHub -> a line of it, and the trouble that it is about."""
RAW = Path(__file__).parents[2] / "benchmarks" / "smollm2" / "raw" / "metrics.jsonl"


@pytest.mark.parametrize("thread", QUESTIONS)
def test_a_question_of_a_user_is_answered_with_evidence(thread: str) -> None:
    words, tag = QUESTIONS[thread]
    found = choose(words)
    assert tag in (found.trouble.tag, *(it.tag for it in found.others[: len(found.named)]))
    measured = [it for it in (*found.named, *found.remedies) if it.map or it.claims or it.boards]
    assert measured
    console = Console(width=80, file=io.StringIO())
    print_choice(found, len(found.remedies), console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    shown = " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80
    assert found.trouble.diagnosis in shown and found.advice.unknown in shown
    for remedy in (*found.named, *found.remedies):
        assert f"objective={remedy.expression}" in shown
        for on_map in remedy.map:
            number = f"{on_map.value:+.3f}" if on_map.policy_gradient is not None else f"{min(1, on_map.value):.2f}"
            assert on_map.is_idle or number in shown


@pytest.mark.parametrize("tag", TROUBLES)
def test_a_trouble_is_understood_in_each_of_its_own_words_and_has_an_answer(tag: str) -> None:
    assert [likeness(words)[0][0].tag for words in TROUBLES[tag].words] == [tag] * len(TROUBLES[tag].words)
    (found,) = (it for it in answers() if it.words == tag)
    assert found.trouble.tag == tag and found.remedies


@cache
def answers() -> list[Choice]:
    """To every trouble."""
    return [choose(tag) for tag in TROUBLES]


def test_what_is_said_to_type_parses_and_differs_in_the_part_that_it_is_about() -> None:
    for remedy in (it for found in answers() for it in found.remedies):
        parts = {part.name for part in parse(remedy.expression).parts}
        if remedy.against:
            assert remedy.name in parts
            assert remedy.name not in {part.name for part in parse(remedy.against).parts}
        else:
            assert remedy.name in parts or remedy.name == remedy.expression


def test_a_metric_that_is_named_counts_what_the_part_does_and_no_metric_counts_the_others() -> None:
    batch = token_batch(random_case(3, extreme=False, moved=True), torch.float64)
    written = {remedy.name: remedy.expression for found in answers() for remedy in found.remedies}
    for name in (it.name for it in names() if it.kind == "part" and it.troubles and ":" not in it.name):
        objective = parse(written[name])
        plan = objective.plan(objective.passes(objective.prepare(batch))[0])
        counted = objective.touched(plan, slice(None), plan.batch.require("logp", "a test"))
        part = next(it for it in objective.parts if it.name == name)
        assert bool(shown_by(part)) == (name in counted), name


def test_advice_is_there_for_every_trouble_in_words_of_the_map_and_of_a_run() -> None:
    assert ADVICE.keys() == TROUBLES.keys()
    recorded = set(json.loads(RAW.read_text(encoding="utf-8").splitlines()[0]))
    recorded |= {"reference/kl", *sampler_difference(torch.zeros(1))}
    for advice in ADVICE.values():
        assert advice.quantity in QUANTITIES
        for setting in advice.settings:
            load_config([setting.word])
        assert {it for it in advice.watch if not it.startswith("touched/")} <= recorded


def test_what_is_like_no_trouble_is_one_line_with_the_nearest_and_status_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = error_of(capsys, "choose", "how do I bake bread")
    assert "like no trouble" in message and sum(tag in message for tag in TROUBLES) >= 3
    with pytest.raises(UserError, match="the nearest are"):
        rlzoo.choose("pizza")


def test_without_words_every_trouble_is_listed_and_a_beginning_that_is_read_from_the_boards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["choose"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(tag in shown for tag in TROUBLES)
    begin = choose("out of memory").beginning
    assert f"Start with objective={begin.expression}" in shown
    assert begin.expression not in begin.worse and {"grpo", "entropy20"} <= {*begin.compared}
    assert begin.better and f"call {', '.join(begin.better)} better" in shown
    assert "entropy20" in begin.worse and f"and {', '.join(begin.worse)} worse" in shown


def test_the_same_values_come_from_python_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = rlzoo.choose("answers get longer and longer")
    assert main(["choose", "--json", "answers", "get", "longer", "and", "longer"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["trouble"]["tag"] == found.trouble.tag == "length_growth"
    assert [it["expression"] for it in shown["remedies"]] == [it.expression for it in found.remedies]
    boards = shown["beginning"]["boards"]
    assert [row["verdict"]["finding"] for row in boards] == [it.verdict.finding.value for it in found.beginning.boards]
    assert boards


def test_recipes_are_known_as_people_write_them_and_ordinary_words_are_none() -> None:
    zoo = names()
    assert [it.name for it in named_in("is Dr. GRPO better than DAPO, or GSPO?", zoo)[0]] == ["dr_grpo", "dapo", "gspo"]
    assert [it.name for it in named_in("20-entropy or UP", zoo)[0]] == ["entropy20", "up"]
    assert named_in("the real answer goes up", zoo)[0] == []


@pytest.mark.parametrize(
    ("words", "found", "other"), [("length bias", "dr_grpo", "stapo"), ("rewards are noisy", "kl", "s2t")]
)
def test_a_search_finds_what_addresses_a_trouble_in_its_users_words(
    words: str, found: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["objectives", "--search", words, "--json"]) == 0
    listed = {row["name"] for row in json.loads(capsys.readouterr().out)}
    assert found in listed and other not in listed


def test_a_recipe_addresses_what_the_parts_do_that_are_its_idea() -> None:
    tags = {name.name: set(name.troubles) for name in names()}
    assert tags["stapo"] == tags["s2t"]
    assert tags["dapo"] == tags["clip_higher"] | tags["dynamic_sampling"] | tags["token_mean"] | tags["soft_overlong"]
    assert with_examples(next(name for name in names() if name.name == "stapo")) == "stapo"


def test_a_part_that_names_an_unknown_trouble_is_refused_with_the_nearest() -> None:
    class Wrong(Weight):
        """Weighs."""

        name = "wrong"
        troubles = ("entropy_colapse",)

    with pytest.raises(ObjectiveError, match="no trouble is called 'entropy_colapse'; did you mean entropy_collapse"):
        register(Wrong)
