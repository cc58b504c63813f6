"""Shared prompts and packed rows: the same values and gradients as each response behind a prompt of its own."""

import pytest
import torch
from accelerate import Accelerator
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaModel

from objectives import Aggregate, TokenBatch, parse
from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.model.layout import balanced, grow, pack, packed
from rlzoo.model.policy import Policy
from rlzoo.training.step import StepRollouts
from tests.model.tiny_models import slow_statistics, tiny_policy
from tests.objectives.zoo_sample import RECIPES, fitting
from tests.training.recording import Recording, collected_by, rollouts, with_noise

MODELS = ["llama", "qwen3", "gemma2", "mistral", "gpt2"]


# ---- trees and rows --------------------------------------------------------------------------------------------------

RESPONSES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30)), min_size=1, max_size=40)


@given(RESPONSES, st.integers(0, 80), st.integers(1, 300), st.booleans())
@settings(deadline=None)
def test_every_response_is_in_one_tree_behind_its_prompt_and_within_the_limits(
    responses: list[tuple[int, int]], longest: int, budget: int, one_each: bool
) -> None:
    prompts = [[number] * (3 * number + 1) for number, _ in responses]
    lengths = [length for _, length in responses]
    trees = grow(prompts, lengths, longest)
    assert sorted(row for tree in trees for row in tree.rows) == list(range(len(responses)))
    for tree in trees:
        (prompt,) = {tuple(prompts[row]) for row in tree.rows}
        assert tree.size == len(prompt) + sum(lengths[row] - 1 for row in tree.rows)
        assert tree.size <= longest or len(tree.rows) == 1 or all(lengths[row] == 1 for row in tree.rows[1:])
    batches = pack(trees, budget, one_each)
    assert [tree for batch in batches for row in batch for tree in row].sort(key=id) == list(trees).sort(key=id)
    for batch in batches:
        width = max(sum(tree.size for tree in row) for row in batch)
        assert width == batch[0][0].size == max(tree.size for row in batch for tree in row)
        assert len(batch) == 1 or len(batch) * width <= budget
        assert not one_each or all(len(row) == 1 for row in batch)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=60), st.integers(1, 2000))
@settings(deadline=None)
def test_balanced_parts_are_as_few_as_the_budget_asks_for_and_differ_by_no_more_than_an_item(
    sizes: list[int], budget: int
) -> None:
    part_of = balanced(sizes, budget)
    parts = [sum(size for size, part in zip(sizes, part_of, strict=True) if part == it) for it in set(part_of)]
    assert set(part_of) == set(range(max(1, min(len(sizes), -(-sum(sizes) // budget)))))
    assert max(parts) - min(parts) <= max(sizes)


def test_in_balanced_micro_batches_tokens_of_short_and_long_responses_weigh_the_same() -> None:
    lengths = [40] * 24 + [400] * 8
    numbers = torch.tensor(balanced([50 + length for length in lengths], 2048))
    mask = torch.arange(400) < torch.tensor(lengths)[:, None]
    batch = TokenBatch(mask=mask, micro_batch=numbers, advantage=torch.ones(mask.shape))
    weight = parse("grpo+token_mean(scope=microbatch)").the(Aggregate).coefficients(batch, mask) * mask.sum()
    assert weight[:24][mask[:24]].mean().item() == pytest.approx(1, abs=0.15)
    assert weight[24:][mask[24:]].mean().item() == pytest.approx(1, abs=0.05)


def test_packing_leaves_few_positions_empty() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 65, (128,), generator=generator).tolist()
    prompts = [[row // 8] * 46 for row in range(128)]
    trees = grow(prompts, lengths, 1000)
    (rows,) = pack(trees)
    taken = sum(tree.size for tree in trees)
    assert taken == 16 * 46 + sum(lengths) - 128
    assert len(rows) * trees[0].size < 1.3 * taken
    assert taken < 0.45 * 128 * (46 + 64)


# ---- values and gradients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_statistics_in_shared_rows_equal_each_response_scored_alone_in_float64(name: str) -> None:
    policy = tiny_policy(name)
    assert policy.longest_tree > 0
    policy.longest_tree = 13  # so that several trees share a row
    sampled, _ = rollouts(vocabulary=300)
    layout = packed(sampled.prompt_tokens(), sampled.tokens, sampled.lengths.tolist(), policy.longest_tree)
    assert layout.tree is not None and layout.branch is not None
    assert layout.branch.max() > 1 and layout.tree.max() > 0
    stats = policy(sampled.responses(), 0.7, with_entropy=True)
    logp, entropy = slow_statistics(policy, sampled.responses(), 0.7)
    torch.testing.assert_close(stats.logp.double(), logp, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(stats.entropy.double(), entropy, rtol=1e-5, atol=1e-4)


def recording(policy: Policy, reference: Policy, budget: int) -> tuple[Recording, StepRollouts]:
    """A trainer of a policy with everything in this process."""
    words = ["rollout.responses_per_prompt=4", "train.minibatches_per_step=2", "task.problems=8"]
    words += ["evaluation.problems=1", f"train.tokens_per_micro_batch={budget}", "objective=grpo"]
    sampled, batch = rollouts(vocabulary=300)
    trainer = Recording(
        check(load_config(words)), Accelerator(cpu=True), policy, reference, sampler=None, teacher=reference
    )
    return trainer, collected_by(sampled, batch)


FIRST_METHODS = ("grpo", "dapo", "entropy20(fraction=0.3)", "lopti+kl", "stare", "stapo")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["gpt2", *(pytest.param(it, marks=pytest.mark.slow) for it in ("qwen3", "llama", "gemma2"))]
)
def test_sharing_packing_and_cutting_change_no_gradient_of_any_recipe(name: str, float64: None) -> None:
    policy = tiny_policy(name).double()
    old, moved, reference = (with_noise(policy, seed) for seed in range(3))
    longest, tolerance = policy.longest_tree, 1e-10 if name == "gpt2" else 2e-6  # rotary embeddings are float32
    whole = fitting(4, RECIPES if name == "qwen3" else FIRST_METHODS)
    expected = {}
    for share, budget in ((0, 10_000), (longest, 10_000), (longest, 90), (20, 60), (0, 50)):
        trainer, collected = recording(policy, reference, budget)
        policy.longest_tree = reference.longest_tree = share
        for recipe in whole:
            trainer.record(recipe, collected, old, moved)
            wanted = expected.setdefault(recipe, trainer.gradients)
            for found, gradient in zip(trainer.gradients, wanted, strict=True):
                assert (found - gradient).abs().max() <= tolerance * gradient.abs().max()
                assert gradient.abs().max() > 0 or "lopti" in recipe


def test_attention_that_takes_no_masks_calculates_every_prompt_and_says_so() -> None:
    with pytest.warns(UserWarning, match="behind a prompt of its own: model.attention=flex_attention"):
        policy = tiny_policy("llama", attention="flex_attention")
    assert policy.longest_tree == 0


def test_a_model_that_mixes_what_the_mask_keeps_apart_calculates_every_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = LlamaModel.forward
    monkeypatch.setattr(LlamaModel, "forward", lambda *a, attention_mask=None, **k: forward(*a, **k))
    with pytest.warns(UserWarning, match="LlamaForCausalLM mixes"):
        assert tiny_policy("llama").longest_tree == 0
