"""What ZooGRPOTrainer takes over from TRL, what it refuses, and what it keeps."""

import contextlib
import io
import json
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from accelerate import Accelerator
from datasets import Dataset
from peft import LoraConfig
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from objectives import ObjectiveError, parse
from objectives.adapters import package
from objectives.adapters.checkpoint import STATE_FILE
from objectives.adapters.trl import STATISTICS, ZooGRPOTrainer
from objectives.adapters.trl_settings import check_peer, settled
from rlzoo.config import load_config
from rlzoo.doctor.readers import read_table
from rlzoo.experiment.check import check
from rlzoo.model.policy import load_policy
from tests.adapters_trl.gradients import WORDS, Ours, noisy_weights
from tests.adapters_trl.refills import ARITHMETIC, no_even_one_right, right
from tests.adapters_trl.rig import MODEL, ended_rollouts, given, graded, settings, trainer
from tests.guide import GUIDE
from tests.objectives.zoo_names import RECIPES
from tests.processes import ONE, TWO, launch
from tests.training.recording import SIZE, collected_by

READ = {
    **{"reward": "reward", "reward_deviation": "reward_std", "entropy": "entropy", "length": "completions/mean_length"},
    **{"truncated": "completions/clipped_ratio", "groups_without_signal": "frac_reward_zero_std"},
    **{"gradient_norm": "grad_norm", "clipped": "touched/clip/tokens", "learning_rate": "learning_rate"},
}
"""Column of the doctor's table -> what TRL logs it as."""
ADAPTIVE = "stare(adaptive=true,attenuate=0.9,target_entropy=0.3)"


def quietly(run: Any, **options: Any) -> Any:
    """What it returns, without what TRL prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return run(**options)


# ---- what is refused -------------------------------------------------------------------------------------------------


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("stapo", {"epsilon": 0.3}, "'stapo+clip(low=0.3)+clip_higher(high=0.3)'"),
    ("grpo", {"epsilon": 0.3, "epsilon_high": 0.4}, "'grpo+clip(low=0.3)+clip_higher(high=0.4)'"),
    ("grpo", {"beta": 0.1}, "'grpo+unbiased_kl(beta=0.1)-kl'"),
    ("stapo", {"loss_type": "dr_grpo"}, "'stapo+constant_length'"),
    ("stapo", {"loss_type": "bnpo"}, "'stapo+token_mean(scope=microbatch)'"),
    ("grpo", {"scale_rewards": "batch"}, "'grpo+center_batch_std'"),
    ("grpo", {"scale_rewards": False}, "'grpo+group_center'"),
    ("grpo", {"use_vllm": True, "vllm_importance_sampling_cap": 5.0}, "(cap=5.0,level=product,outside=drop)'"),
    ("grpo", {"num_iterations": 3}, "'grpo+epochs(count=3)'"),
    ("lopti", {"num_iterations": 3}, "the objective has lopti in its place"),
    ("grpo", {"use_adaptive_entropy": True}, "nothing here does that: it moves the coefficient of the entropy"),
    ("grpo", {"sapo_temperature_pos": 2.0}, "nor in trl beside its other settings: leave that out"),
]


@pytest.mark.parametrize(("objective", "refused", "said"), REFUSED)
def test_a_setting_that_the_objective_replaces_is_an_error_that_names_the_users_own_number(
    objective: str, refused: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ObjectiveError) as raised:
        settled(parse(objective), settings(tmp_path, 4, 6, **refused))
    assert said in str(raised.value)


def test_passes_may_be_given_as_the_objective_has_them(tmp_path: Path) -> None:
    for objective in ("lopti", "grpo+epochs"):
        assert settled(parse(objective), settings(tmp_path, 4, 6, num_iterations=2)).num_iterations == 2


def test_settings_that_are_left_alone_are_no_error(tmp_path: Path) -> None:
    args = settings(tmp_path, 4, 6)
    assert settled(parse("grpo"), args).beta == 1.0 and args.beta == 0.0
    assert settled(parse("lopti"), args).num_iterations == 2


@pytest.mark.parametrize(
    ("objective", "rows", "window", "others", "said"),
    [
        ("grpo", 2, 3, {"steps_per_generation": 6}, "two mini-batches"),
        ("grpo", 4, 2, {"steps_per_generation": 3}, "a multiple of gradient_accumulation_steps"),
        ("gspo", 4, 2, {"sync_ref_model": True}, r"add \+kl"),
        ("arm(alpha=0.5)", 4, 2, {}, "log-probs of prompts"),
        ("otb", 4, 2, {}, "sums of squares"),
        ("opd", 4, 2, {}, "log-probs of a teacher"),
        ("gigpo", 4, 2, {}, "the rewards and states of turns, which TRL does not give"),
        ("passk", 4, 2, {}, "num_generations=4: objective=passk needs at least 5"),
        ("grpo+soft_overlong(cache=10)", 4, 2, {}, "cache=10 of soft_overlong exceeds max_completion_length=9"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    objective: str, rows: int, window: int, others: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ObjectiveError, match=said):
        ZooGRPOTrainer("no/model", right, objective, settings(tmp_path, rows, window, **others))


def test_prompts_that_stream_cannot_be_drawn_from(tmp_path: Path) -> None:
    data = Dataset.from_dict({"prompt": ["1+1-1="]}).to_iterable_dataset()
    with pytest.raises(ObjectiveError, match="streamed"):
        ZooGRPOTrainer("no/model", right, "dapo", settings(tmp_path, 4, 6), train_dataset=data)


def test_correctness_is_one_of_the_reward_functions(tmp_path: Path) -> None:
    args = settings(tmp_path, 4, 6)
    with pytest.raises(ObjectiveError, match="by correct="):
        ZooGRPOTrainer("no/model", [right, no_even_one_right], "dapo", args)
    with pytest.raises(ObjectiveError, match="correct=wrong is not one of right, no_even_one_right"):
        trainer("dapo", args, reward_funcs=[right, no_even_one_right], correct="wrong")
    with pytest.raises(ObjectiveError, match="gave 2 to 2"):
        quietly(trainer("dapo", args, reward_funcs=lambda row, **_: [2.0] * len(row)).train)


def test_correctness_that_is_not_known_is_an_error_where_it_is_read(tmp_path: Path) -> None:
    def math_alone(row: list[int], **_: Any) -> list[float | None]:
        return [None if number < SIZE else float(number % 2) for number in row]

    args, functions = settings(tmp_path, 4, 6, max_steps=1), [math_alone, right]
    with pytest.raises(ObjectiveError, match="math_alone gave None for completions that others score"):
        quietly(trainer("dapo", args, reward_funcs=functions, correct="math_alone").train)
    quietly(trainer("grpo", args, reward_funcs=functions).train)


def test_a_function_gives_a_reward_to_all_of_a_group_or_to_none_where_they_are_read_apart(tmp_path: Path) -> None:
    def second(row: list[int], **_: Any) -> list[float | None]:
        return [None if number < SIZE else float(number) for number in row]

    def some(row: list[int], **_: Any) -> list[float | None]:
        return [None if number % SIZE else 1.0 for number in row]

    args = settings(tmp_path, 4, 6, max_steps=1)
    peer = trainer("gdpo", args, reward_funcs=[graded, second])
    quietly(peer.train)
    assert peer._rollout_step.prepared.require("rewards", "test")[:SIZE, 1].tolist() == [0.0] * SIZE
    with pytest.raises(ObjectiveError, match="some gave None for some completions"):
        quietly(trainer("gdpo", args, reward_funcs=[graded, some]).train)
    quietly(trainer("grpo", args, reward_funcs=[graded, some]).train)


def row_of(recipe: str, args: GRPOConfig) -> str:
    """The line of a recipe in the table: what it takes of TRL, or why it is refused."""
    try:
        objective = parse(recipe)
        settled(objective, args)
    except ObjectiveError as error:
        return f"| `{recipe}` | refused: {error} |"
    takes = {
        f"{objective.pass_count} passes": objective.pass_count > 1,
        "the reference": "logp_ref" in objective.needs,
        "refills": objective.refills,
        "log-probs of the engine": "logp_sampler" in objective.needs,
        "the rewards of each function": "rewards" in objective.needs,
        "a forward pass before the first update": bool(objective.requires(on_policy=True) & STATISTICS),
        "before later ones": objective.reads_current,
    }
    return f"| `{recipe}` | runs: {', '.join(name for name, needed in takes.items() if needed) or 'no more'} |"


def test_the_guide_lists_every_recipe_and_what_it_takes_or_why_it_is_refused(tmp_path: Path) -> None:
    args = settings(tmp_path, 4, 6, num_generations=8)
    rows = [row_of(recipe, args) for recipe in RECIPES]
    table = "\n".join(["| recipe | in TRL |", "|---|---|", *rows])
    guide = GUIDE.read_text("utf-8")
    assert guide.split("<!-- recipes -->\n")[1].split("\n<!-- /recipes -->")[0] == table, table


# ---- a peer that has changed -----------------------------------------------------------------------------------------


def test_a_peer_that_no_longer_scales_its_loss_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seam that is changed or gone is `Package`'s, as in verl."""
    check_peer()
    monkeypatch.setattr(GRPOTrainer, "loss_is_scaled_for_ga", False)
    with pytest.raises(ObjectiveError, match="loss_is_scaled_for_ga"):
        check_peer()


def test_a_newer_version_is_tried_with_a_warning_and_an_older_one_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "version", lambda _: "1.17.2")
    with pytest.warns(UserWarning, match=r"trl 1.17.2 is not the version that was tested, 1.16"):
        check_peer()
    monkeypatch.setattr(package, "version", lambda _: "0.29.1")
    with pytest.raises(ObjectiveError, match=r"trl 0.29.1 is older than this adapter: install trl==1.16.\*"):
        check_peer()


# ---- what is done ----------------------------------------------------------------------------------------------------


def test_the_lines_of_the_guide_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(from trl.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    small = {
        "max_steps": 1,
        "max_completion_length": 6,
        "use_cpu": True,
        "bf16": False,
        "report_to": [],
        "logging_steps": 1,
    }
    monkeypatch.setattr(trl, "GRPOConfig", partial(GRPOConfig, **small))
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {"reward_function": right, "dataset": ARITHMETIC}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code.replace("Qwen/Qwen3-0.6B", str(MODEL)), found)
    step, *_ = found["trainer"].state.log_history
    assert math.isfinite(step["loss"]) and step["grad_norm"] > 0 and "touched/s2t/tokens" in step


@pytest.mark.parametrize("processes", [ONE, TWO], ids=["one process", "two processes"])
def test_dynamic_sampling_samples_again_until_the_batch_is_full(processes: list[str], tmp_path: Path) -> None:
    found = json.loads(launch([*processes, "-m", "tests.adapters_trl.refills", tmp_path]).splitlines()[-1])
    assert len(found) == (1 if processes is ONE else 2)
    for each in found:
        assert each["rows"] == 24 and len(each["own"]) == 24 // len(found)
        assert each["right in each group"] == [2] * 6
        assert each["groups dropped"] > 0.3
        assert each["batch"] == found[0]["batch"]
    shown = [row for each in found for row in each["own"]]
    assert shown == found[0]["batch"]  # each process trains on its part of one batch


def test_a_refill_that_finds_nothing_is_an_error(tmp_path: Path) -> None:
    hopeless = trainer("dapo", settings(tmp_path, 4, 6), reward_funcs=lambda row, **_: [0.0] * len(row), max_refills=2)
    with pytest.raises(ObjectiveError, match="of 18 prompts only 0 gave groups"):
        quietly(hopeless.train)


def test_a_group_that_no_function_scores_is_no_part_of_the_batch(tmp_path: Path) -> None:
    def some(row: list[int], **_: Any) -> list[float | None]:
        return [None if i == 5 else float(i % 2) for i in row]

    peer = trainer("grpo", settings(tmp_path, 4, 6, max_steps=1), reward_funcs=some)
    quietly(peer.train)
    assert (peer._plan.batch.mask.any(1)).tolist() == [i // 4 != 1 for i in range(24)]


def test_a_log_prob_that_the_engine_does_not_know_is_the_policys_own(tmp_path: Path) -> None:
    def forgetful(prompts: list[str], peer: ZooGRPOTrainer) -> dict[str, Any]:
        found = given(prompts, peer)
        found["logprobs"][1][0] = math.nan
        return found

    peer = trainer("icepop", settings(tmp_path, 4, 6, max_steps=1), rollout_func=forgetful)
    quietly(peer.train)
    batch = peer._plan.batch
    assert torch.equal(batch.logp_sampler[1, :1], batch.logp_old[1, :1]) and batch.logp_sampler.isfinite().all()
    assert peer.state.log_history[0]["grad_norm"] > 0


def test_the_log_has_the_touched_tokens_that_our_own_loop_counts(tmp_path: Path) -> None:
    objective, weights = "stapo+clip_higher+kl", noisy_weights(2)
    experiment = check(load_config([*WORDS, "train.minibatches_per_step=1"]))
    policy = load_policy(experiment.config.model, experiment.tokenizer)
    own = Ours(experiment, Accelerator(cpu=True), policy, policy.frozen_copy(), sampler=None)
    own.objective, own.gradients, own.weights, own.per_device = parse(objective), [], weights, 4
    _, tally, _ = own.learn(collected_by(*ended_rollouts()))
    expected = tally.metrics(own.accelerator)
    peer = trainer(objective, settings(tmp_path, 4, 6, max_steps=1))
    quietly(peer.train)
    logged = peer.state.log_history[0]
    names = {name for name in expected if name.startswith("touched/") and name.endswith(("/tokens", "/mass"))}
    assert names and {name for name in logged if name.startswith("touched/")} == names
    for name in names:
        assert logged[name] == pytest.approx(expected[name], abs=1e-6)
    assert logged["kl"] == 0 and 0 < logged["entropy"] < 3 and logged["loss"] == pytest.approx(expected["loss"], 1e-4)
    peer.save_state()
    table = read_table(tmp_path)  # as rlzoo doctor reads what TRL wrote
    assert table["step"].tolist() == [1]
    for column, metric in READ.items():
        assert table[column].tolist() == [logged[metric]], column


def test_evaluation_samples_and_scores_between_updates(tmp_path: Path) -> None:
    args = settings(tmp_path, 4, 6, max_steps=2, eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=8)
    peer = trainer("grpo", args, eval_dataset=ARITHMETIC.select(range(4)), **sampling(right))
    quietly(peer.train)
    logged = [entry for entry in peer.state.log_history if "eval_reward" in entry]
    assert len(logged) == 2 and not any("eval_loss" in entry for entry in logged)


def test_adapters_of_peft_are_trained_with_the_model_without_them_as_reference(tmp_path: Path) -> None:
    lora = LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", exclude_modules=["lm_head"])
    peer = trainer("grpo", settings(tmp_path, 4, 6, max_steps=2, learning_rate=1e-2), peft_config=lora)
    quietly(peer.train)
    first, second = peer.state.log_history[:2]
    assert first["kl"] == pytest.approx(0, abs=1e-9) and second["kl"] > 1e-6 and peer.ref_model is None


# ---- checkpoints -----------------------------------------------------------------------------------------------------


class States(TrainerCallback):
    """The controllers' state before each step."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.seen.append(self.trainer._controllers)


def sampling(reward: Any) -> dict[str, Any]:
    """Responses that TRL samples itself, to arithmetic."""
    return {"rollout_func": None, "train_dataset": ARITHMETIC, "reward_funcs": reward}


def adaptive(folder: Path, steps: int) -> tuple[ZooGRPOTrainer, States]:
    args = settings(folder, 4, 6, max_steps=steps, save_strategy="steps", save_steps=2, learning_rate=1e-3)
    states = States()
    states.trainer = trainer(ADAPTIVE, args, callbacks=[states], **sampling(no_even_one_right))
    return states.trainer, states


def test_a_resumed_run_is_bitwise_the_whole_one_and_so_is_the_state_of_its_controllers(tmp_path: Path) -> None:
    whole, states = adaptive(tmp_path / "whole", 4)
    quietly(whole.train)
    first, _ = adaptive(tmp_path / "part", 2)
    quietly(first.train)
    rest, resumed = adaptive(tmp_path / "part", 4)
    quietly(rest.train, resume_from_checkpoint=True)
    assert resumed.seen == states.seen[2:] and len({str(state) for state in states.seen}) == 4
    assert rest._refills == whole._refills > first._refills > 0
    pairs = zip(whole.model.parameters(), rest.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_a_checkpoint_of_another_objective_is_refused(tmp_path: Path) -> None:
    first, _ = adaptive(tmp_path, 2)
    quietly(first.train)
    args = settings(tmp_path, 4, 6, max_steps=4)
    with pytest.raises(ObjectiveError, match="another objective"):
        quietly(trainer("grpo", args).train, resume_from_checkpoint=True)
    (tmp_path / "checkpoint-2" / STATE_FILE).unlink()
    with pytest.raises(ObjectiveError, match=f"has no {STATE_FILE}"):
        quietly(adaptive(tmp_path, 4)[0].train, resume_from_checkpoint=True)
