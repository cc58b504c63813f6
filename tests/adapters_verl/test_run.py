"""Whole runs of verl on Ray: each update has the gradient that our own loop has on the same rollouts and weights."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from objectives import TokenBatch, parse
from objectives.adapters.checkpoint import STATE_FILE
from objectives.adapters.verl.controller import dealt, learnt_from
from objectives.adapters.verl.teacher import MODELS, NODES
from rlzoo.doctor.readers import read_table
from tests.adapters_verl.rollouts import END, MODEL, Along, Given, embedded, squares, statistics
from tests.guide import learn
from tests.processes import failure, launch

MINIBATCHES, TOLERANCE = 2, 1e-4
"""In float32: on the model that adds, gradients of the same loss differ by up to 3e-5 of their norm."""
SMALL = 1e-2
"""A gradient's norm below which rounding is measured against this. Where the tokens' gradients cancel, their rounding
stays: 5e-7 was left of a norm of 3e-3 beside one of 6. The divergence from the reference has no gradient before the
first update; verl computes both log-probabilities in different batches, so that about 1e-8 is left."""
SHAPING = "reinforce_pp+soft_overlong(cache=4)"
DROPPING = "dapo"
WEIGHING = "advantage_reweighting"
MASKING = "stapo+clip_higher+kl"
PASSES = "lopti+sampler_correction"
BASELINES = "otb"
REWARDS = "gdpo"
TAUGHT = "grpo+opd"
ADAPTIVE = "stare(adaptive=true,attenuate=0.9,target_entropy=0.3)-dynamic_sampling"
"""An expression for each stage, the last one with a controller."""
WORDS = {
    ADAPTIVE: ["trainer.save_freq=1"],
    PASSES: ["trainer.n_gpus_per_node=2"],
    REWARDS: [
        f"reward.custom_reward_function.path={Path(__file__).with_name('two_rewards.py')}",
        "+algorithm.gdpo_reward_keys=[acc,shortness]",
    ],
    TAUGHT: [
        f"{MODELS}.teacher_model.model_path={MODEL}",
        f"{MODELS}.teacher_model.inference.tensor_model_parallel_size=1",
        f"{NODES}=1",
        "distillation.n_gpus_per_node=1",
    ],
}
"""What else a run is told: to save after each step, to share the work between two ranks, what its rewards are, and who
teaches it: the model before training."""


@dataclass(frozen=True)
class Run:
    """What a run printed and wrote down."""

    folder: Path
    printed: str

    @property
    def steps(self) -> list[dict[str, Any]]:
        return self._read("step")

    @property
    def updates(self) -> list[dict[str, Any]]:
        return self._read("update")

    def _read(self, kind: str) -> list[dict[str, Any]]:
        paths = sorted(self.folder.glob(f"{kind}_*.pt"), key=lambda path: int(path.stem.split("_")[1]))
        return [torch.load(path) for path in paths]


def command(folder: Path, expression: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "tests.adapters_verl.run", str(folder), expression, *words]


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function of an expression: its run of two steps, each made once."""

    @cache
    def run(expression: str) -> Run:
        folder = tmp_path_factory.mktemp("run")
        return Run(folder, launch(command(folder, expression, *WORDS.get(expression, ()))))

    return run


def given(step: dict[str, Any]) -> Given:
    """A step's rollouts, mini-batch after mini-batch; the model before training is reference and teacher."""
    rows, width = step["batch"]["mask"].shape
    share = rows // step["ranks"]  # of a rank, in it each mini-batch's rows one after the other
    order = sorted(range(rows), key=lambda row: row % share * MINIBATCHES // share)
    batch = TokenBatch(**step["batch"], max_length=step["max_length"]).rows(torch.tensor(order))
    group = batch.require("group", "test").tolist()
    numbers = {number: i for i, number in enumerate(dict.fromkeys(group))}
    batch = batch.with_fields(group=torch.tensor([numbers[number] for number in group]))
    rollouts = Given([step["prompts"][row] for row in order], [step["responses"][row] for row in order], batch)
    with torch.no_grad():
        logp_ref, _ = statistics(embedded(), rollouts, range(len(rollouts.responses)), width)
    batch = rollouts.batch.with_fields(logp_ref=logp_ref, logp_teacher=logp_ref)
    return Given(rollouts.prompts, rollouts.responses, batch)


def ours(expression: str, step: dict[str, Any], updates: Sequence[dict[str, Any]]) -> tuple[list[Tensor], Any]:
    """The gradients of a step's updates by the guide's loop at the weights that verl had, and controllers' state."""
    rollouts, model = given(step), embedded()
    weights = [tied(update["weights"]) for update in updates]
    model.load_state_dict(weights[0])
    batch = rollouts.batch.with_fields(sum_pi_squared_old=squares(model, rollouts))
    along = Along(model, weights)
    width = rollouts.batch.mask.shape[1]
    state = learn(
        parse(expression),
        batch,
        lambda rows: statistics(model, rollouts, rows.tolist(), width),
        along,
        minibatches=MINIBATCHES,
        state=step["before"],
    )
    return along.gradients, state


def tied(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """With the head, which is the embedding."""
    return {**weights, "lm_head.weight": weights["model.embed_tokens.weight"]}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "expression",
    [
        DROPPING,
        MASKING,
        PASSES,
        *(pytest.param(it, marks=pytest.mark.slow) for it in (SHAPING, WEIGHING, TAUGHT, ADAPTIVE, BASELINES, REWARDS)),
    ],
)
def test_each_update_of_a_run_has_the_gradient_of_our_own_loop(ran: Any, expression: str) -> None:
    run, count = ran(expression), MINIBATCHES * parse(expression).pass_count
    assert len(run.steps) == 2 and len(run.updates) == 2 * count
    norms = list[float]()
    for number, step in enumerate(run.steps):
        updates = run.updates[number * count : (number + 1) * count]
        expected, state = ours(expression, step, updates)
        assert state == step["after"]
        for one, update in zip(expected, updates, strict=True):
            norms.append(float(one.norm()))
            difference = float((one - update["gradient"]).norm())
            print(f"{expression}: {difference:.1e} of {norms[-1]:.1e}")
            assert difference <= TOLERANCE * max(norms[-1], SMALL)
    # Which responses come together is the engine's: now and then a mini-batch has no group that tells right from wrong.
    assert max(norms) > SMALL and sum(norm > 0 for norm in norms) >= len(norms) / 2


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_minibatch_is_made_of_whole_groups_whatever_is_missing_of_them(ranks: int) -> None:
    sizes, prompts, size = [4, 3, 4, 1, 4], 2, 8
    rows = iter(range(sum(sizes)))
    groups = [[next(rows) for _ in range(count)] for count in sizes]
    lengths = torch.randint(1, 100, (24,), generator=torch.Generator().manual_seed(0)).tolist()
    order = dealt(groups, prompts, size, ranks, lengths)
    assert sorted(order) == list(range(24))
    shares = torch.tensor(order).view(ranks, 3, size // ranks)
    for number in range(3):
        whole = {row for group in groups[number * prompts : (number + 1) * prompts] for row in group}
        assert whole == {row for row in shares[:, number].flatten().tolist() if row < sum(sizes)}


def test_a_prompt_whose_responses_failed_but_one_only_fills_up() -> None:
    keys = ["a_0", "a_1", "b_0", "c_0", "c_1", "c_1"]
    tags = [{}, {}, {}, {}, {}, {"is_padding": True}]
    assert learnt_from(keys, tags, 2).tolist() == [True, True, False, True, True, False]
    assert learnt_from(keys, tags, 1).tolist() == [True, True, True, True, True, False]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_step_that_loses_more_batches_than_it_may_ends_in_one_line(tmp_path: Path) -> None:
    most = "algorithm.filter_groups.max_num_gen_batches=1"
    said = failure(command(tmp_path, "grpo+dynamic_sampling", most, "data.max_response_length=1"))  # no answer is right
    assert f"prompts of this step gave nothing to learn from; raise {most}" in said


@pytest.mark.timeout(1800)
def test_dynamic_sampling_refills_with_groups_that_the_objective_keeps(ran: Any) -> None:
    for step in ran(DROPPING).steps:
        right = step["batch"]["correct"].view(-1, 4).sum(1)
        assert len(right) == 8 and ((right > 0) & (right < 4)).all()
    assert "training/filter_groups/evicted_samples" in ran(DROPPING).printed


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_rewards_of_a_run_are_those_that_the_reward_function_names(ran: Any) -> None:
    for step in ran(REWARDS).steps:
        written = [len(response) - (response[-1] == END) for response in step["responses"]]
        assert step["batch"]["rewards"].T.tolist() == [
            step["batch"]["correct"].tolist(),
            (-torch.tensor(written) / 10).tolist(),
        ]


@pytest.mark.timeout(1800)
def test_the_log_has_the_touched_tokens_of_every_part(ran: Any) -> None:
    printed = ran(MASKING).printed
    for name in ("s2t", "clip", "clip_higher"):
        assert f"actor/touched/{name}/tokens:" in printed and f"actor/touched/{name}/mass:" in printed
    assert "actor/kl:" in printed and "actor/pg_loss:" in printed
    lines = (ran(MASKING).folder / "log.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]  # what examples/learning_curve.py reads
    logged = [json.loads(line)["data"] for line in lines]
    assert all(0 <= data["critic/rewards/mean"] <= 1 for data in logged)
    table = read_table(ran(MASKING).folder / "log.jsonl")  # as rlzoo doctor reads what verl wrote
    assert table["step"].tolist() == [1, 2] and ((table["reward"] >= 0) & (table["reward"] <= 1)).all()
    for column, metric in {"loss": "actor/pg_loss", "clipped": "actor/touched/clip/tokens"}.items():
        assert table[column].tolist() == [data[metric] for data in logged]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_state_of_controllers_survives_a_resume(ran: Any, tmp_path: Path) -> None:
    first = ran(ADAPTIVE)
    saved = json.loads((first.folder / "checkpoints" / "global_step_2" / STATE_FILE).read_text("utf-8"))
    assert saved["controllers"] == first.steps[1]["after"] != first.steps[0]["after"]
    where = f"trainer.default_local_dir={first.folder / 'checkpoints'}"
    launch(command(tmp_path, ADAPTIVE, where, "trainer.total_training_steps=3"))
    (resumed,) = Run(tmp_path, "").steps
    assert resumed["before"] == saved["controllers"] != resumed["after"]
    said = failure(command(tmp_path, "grpo", where, "trainer.total_training_steps=4"))
    assert "is of another objective" in said
