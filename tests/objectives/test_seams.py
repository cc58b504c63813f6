"""What parts may say of themselves and what follows: bounds, use for advantages, fields, late rewards, payloads."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from objectives import (
    Aggregate,
    Bounds,
    Modifier,
    ObjectiveError,
    Penalty,
    Reward,
    Surrogate,
    TokenBatch,
    Weight,
    names,
    parameter,
    parse,
    read_terms,
    recipe,
    register,
)
from objectives.batch import writers
from objectives.zoo import PARTS, RECIPES
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import at_current, evaluate, same
from tests.objectives.vectors import PER_BATCH, batch_z, pushes, rollouts_z
from tests.objectives.zoo_sample import SAMPLE


@pytest.fixture
def registries() -> Iterator[None]:
    """Whatever a test registers is forgotten after it, but not what it has had imported, which would not come again."""
    recipes = dict(RECIPES)
    yield
    for name in [name for name, part in PARTS.items() if part.__module__ == __name__]:
        del PARTS[name]
    for name in RECIPES.keys() - recipes.keys():
        del RECIPES[name]


def part_names(expression: str) -> set[str]:
    return {part.name for part in parse(expression).parts}


# ---- bounds: who reads them and who sets them ------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["dapo", "dapo(variant=authors)", "justrl", "stapo", "gspo"])
@pytest.mark.parametrize("surrogate", ["cispo", "unclipped", "implicit_negative"])
def test_an_inherited_modifier_that_nobody_reads_is_dropped(base: str, surrogate: str) -> None:
    assert {"clip_higher", "dual_clip"} & part_names(base)
    assert not {"clip_higher", "dual_clip"} & part_names(f"{base}+{surrogate}")


def test_cispo_keeps_its_upper_weight_on_a_base_that_raises_the_clip() -> None:
    with_dapo, alone = pushes("dapo+cispo", PER_BATCH), pushes("cispo", PER_BATCH)
    assert torch.equal(with_dapo, alone)
    assert alone[2, 1] == -5
    stages = parse("grpo-kl+token_mean+cispo+soft_overlong+dynamic_sampling")
    for seed in range(5):
        batch = token_batch(random_case(seed, moved=True))
        assert same(evaluate(parse("dapo+cispo"), batch), evaluate(stages, batch))
    assert parse("dapo+cispo") == stages


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("cispo+clip_higher", ["clip_higher", "cispo"]),
        ("cispo+dual_clip", ["dual_clip", "cispo"]),
        ("grpo+cispo+clip_higher(high=0.3)", ["clip_higher", "cispo"]),
        ("kl_cov+dual_clip(cap=10)", ["dual_clip", "unclipped"]),
        ("nft+clip_higher", ["clip_higher", "implicit_negative"]),
    ],
)
def test_an_added_modifier_that_nobody_reads_is_refused(expression: str, said: list[str]) -> None:
    with pytest.raises(ObjectiveError) as raised:
        parse(expression)
    assert all(word in str(raised.value) for word in [*said, "no effect", "leave it out"])


@dataclass(frozen=True)
class SeamWide(Modifier):
    """Sets both widths."""

    name = "seam_wide"
    paper = "arXiv:0000.00000"
    sets = frozenset({"low", "high"})
    width: float = parameter(0.5, "[0, 1]", "both widths")

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        return replace(bounds, low=self.width, high=self.width)


def test_modifiers_of_one_bound_replace_each_other_or_exclude_each_other_as_additions(registries: None) -> None:
    register(SeamWide)
    assert "clip_higher" not in part_names("dapo+seam_wide")
    assert {"seam_wide", "dual_clip"} <= part_names("dapo(variant=authors)+seam_wide")
    for terms in itertools.permutations(["seam_wide", "clip_higher"]):
        with pytest.raises(ObjectiveError, match=r"exclude each other \(one part sets the bound high\): leave one"):
            parse("+".join(["grpo", *terms]))
    again = parse("dapo+seam_wide(width=0.3)")
    assert parse(again.expression) == again


def test_a_modifier_without_formula_numbers_still_has_an_equation(registries: None) -> None:
    register(SeamWide)
    assert "clip(r, seam_wide, seam_wide)" in parse("justrl+seam_wide").equation


# ---- a surrogate without use for advantages --------------------------------------------------------------------------


@pytest.mark.parametrize("weight", ["advantage_reweighting", "surprisal_reweighting", "sampler_correction", "ar"])
def test_weights_are_refused_where_advantages_have_no_say(weight: str) -> None:
    with pytest.raises(ObjectiveError, match=r"has no effect on implicit_negative, .*: leave it out"):
        parse(f"nft+{weight}")


def test_inherited_weights_are_dropped_where_advantages_have_no_say() -> None:
    assert "zone_reweighting" in {part.name for part in parse("hapo").parts if isinstance(part, Weight)}
    assert "zone_reweighting" not in part_names("hapo+nft")


@pytest.mark.parametrize("base", ["ar", "stare", "stare(variant=authors)"])
def test_a_base_that_is_a_weight_is_refused_where_advantages_have_no_say(base: str) -> None:
    with pytest.raises(ObjectiveError, match=r"^nothing of \w+ \(\w+\) is left beside nft: leave one of them out"):
        parse(f"{base}+nft")


def test_rows_without_advantage_are_active_where_advantages_have_no_say() -> None:
    batch = batch_z(torch.zeros(4, 4, dtype=torch.float64))
    assert parse("nft").plan(batch).active.all()
    assert not parse("grpo-kl").plan(batch).active.any()
    assert (pushes("nft", PER_BATCH, batch)[batch.mask] != 0).all()


# ---- fields that are declared are required ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "part", "field"),
    [
        ("dapo(variant=authors)", "token_mean", "micro_batch"),
        ("token_mean(scope=microbatch)", "token_mean", "micro_batch"),
        ("token_mean(scope=prompt)", "token_mean", "group"),
        ("s2t(scope=microbatch)", "s2t", "micro_batch"),
        ("top_entropy(scope=microbatch)", "top_entropy", "micro_batch"),
        ("stare(scope=microbatch)", "surprisal_reweighting", "micro_batch"),
        ("clip_cov(variant=authors)", "clip_cov", "micro_batch"),
        ("kl_cov+cov_penalty(scope=microbatch)", "cov_penalty", "micro_batch"),
        ("nft", "implicit_negative", "correct"),
        ("dr_grpo", "constant_length", "max_length"),
        ("grpo", "kl", "logp_ref"),
        ("justrl", "token_ratio", "logp_old"),
        ("gspo", "sequence_ratio", "logp_old"),
    ],
)
def test_a_plan_without_a_field_that_a_part_reads_is_refused(expression: str, part: str, field: str) -> None:
    objective = parse(expression)
    prepared = objective.prepare(at_current(token_batch(random_case(1, moved=True))))
    with pytest.raises(ObjectiveError, match=f"{part} reads the field {field}, which this batch lacks"):
        objective.plan(prepared.with_fields(**{field: None}))


@pytest.mark.parametrize(
    ("expression", "part", "field"),
    [
        ("dapo", "soft_overlong", "max_length"),
        ("dapo", "dynamic_sampling", "correct"),
        ("grpo+overlong_filter", "overlong_filter", "truncated"),
        ("grpo+kl_reward", "kl_reward", "logp_ref"),
        ("reinforce_pp", "kl_reward", "logp_old"),
        ("ar", "advantage_reweighting", "logp_old"),
        ("stare", "surprisal_reweighting", "entropy_old"),
        ("grpo+sampler_correction", "sampler_correction", "logp_sampler"),
        ("grpo", "group_norm", "reward"),
        ("grpo", "group_norm", "group"),
    ],
)
def test_a_rollout_batch_without_a_field_that_a_part_reads_is_refused(expression: str, part: str, field: str) -> None:
    batch = token_batch(random_case(1, moved=True)).with_fields(**{field: None})
    with pytest.raises(ObjectiveError, match=f"{part} reads the field {field}, which this batch lacks"):
        parse(expression).prepare(batch)


def test_a_given_limit_needs_none_from_the_batch() -> None:
    batch = token_batch(random_case(1, moved=True)).with_fields(max_length=None)
    parse("grpo+soft_overlong(max_length=10)").prepare(batch)
    assert "max_length" not in parse("soft_overlong(max_length=10)").needs


@pytest.mark.parametrize("expression", ["justrl", "gspo", "cispo", "nft", "dr_grpo", "grpo"])
def test_old_log_probs_may_be_left_out_only_by_saying_so(expression: str) -> None:
    objective = parse(expression)
    assert "logp_old" in objective.requires(on_policy=False)
    assert "logp_old" not in objective.requires(on_policy=True)
    batch = at_current(token_batch(random_case(1, moved=False)))
    unsaid = batch.with_fields(logp_old=None)
    with pytest.raises(ObjectiveError, match="reads the field logp_old"):
        objective.token_gradients(unsaid)
    found = objective.token_gradients(unsaid.with_fields(on_policy=True))
    assert all(torch.equal(a, b) for a, b in zip(found, objective.token_gradients(batch), strict=True))


def test_needs_are_what_is_required_of_a_policy_that_moves() -> None:
    for expression in SAMPLE:
        objective = parse(expression)
        assert objective.needs == objective.requires(on_policy=False) >= objective.requires(on_policy=True)


# ---- lengths and holes -----------------------------------------------------------------------------------------------


def test_a_response_is_as_long_as_it_is_whatever_the_loss_sees() -> None:
    mask = torch.tensor([[True, False, True, False], [False] * 4, [True] * 4])
    assert TokenBatch(mask=mask).lengths.tolist() == [3, 0, 4]
    assert TokenBatch(mask=mask, length=torch.tensor([4, 2, 4])).lengths.tolist() == [4, 2, 4]
    assert TokenBatch(mask=mask[:, :0]).lengths.tolist() == [0, 0, 0]
    writer = writers(torch.tensor([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1]]).bool(), torch.ones(3, 4).bool())
    assert TokenBatch(mask=mask, writer=writer).lengths.tolist() == [2, 1, 4]
    batch = TokenBatch(mask=mask, length=torch.tensor([4, 2, 4]), reward=torch.ones(3))
    shaped = parse("soft_overlong(max_length=4,cache=2)").select(batch).reward
    assert shaped.tolist() == [0, 1, 0]


# ---- rewards: late, and per token ------------------------------------------------------------------------------------


def test_late_rewards_come_after_selection_and_are_counted_as_touched() -> None:
    batch = rollouts_z()
    objective = parse("grpo+kl_reward")
    assert torch.equal(objective.select(batch).reward, batch.reward)
    scored = objective.select(batch.with_fields(logp_old=None, logp_ref=None))
    assert scored.selected.all()
    assert not torch.equal(objective.advantages(batch), parse("grpo").advantages(batch))


@pytest.mark.parametrize("advantage", ["group_norm", "group_center", "center_then_global_norm"])
def test_rewards_per_token_are_refused_by_advantages_that_take_one_per_response(advantage: str) -> None:
    with pytest.raises(ObjectiveError) as raised:
        parse(f"grpo+kl_reward(to_go=true)+{advantage}")
    assert all(word in str(raised.value) for word in ["kl_reward(to_go=true)", advantage, "leave one of them out"])
    assert "global_norm" in part_names("grpo+kl_reward(to_go=true)+global_norm")
    direct = rollouts_z().with_fields(reward=torch.zeros(4, 4, dtype=torch.float64))
    with pytest.raises(ObjectiveError, match=f"{advantage} takes one reward per response"):
        parse(f"grpo+{advantage}").advantages(direct)


def test_advantages_per_token_reach_the_plan() -> None:
    objective = parse("reinforce_pp(beta=0.05)")
    prepared = objective.prepare(rollouts_z())
    assert prepared.advantage.shape == (4, 4)
    assert len(set(prepared.advantage[0].tolist())) == 4
    assert (prepared.advantage[~prepared.mask] == 0).all()


# ---- penalties that choose, and plan payloads ------------------------------------------------------------------------


def test_a_penalty_is_on_the_tokens_it_chooses() -> None:
    plan = parse("kl_cov(fraction=0.2)").plan(batch_z())
    chosen = plan.touched["cov_penalty"]
    assert torch.equal(plan.penalty_coefficients["cov_penalty"] != 0, chosen)
    assert (plan.penalty_coefficients["cov_penalty"][chosen] == 0.1).all()
    assert "kl" not in parse("grpo").plan(batch_z()).touched


def test_what_the_plan_settles_for_a_surrogate_follows_the_rows() -> None:
    objective, batch = parse("nft"), batch_z()
    plan = objective.plan(batch)
    assert set(plan.extra) == {"correct", "success"}
    total = objective.loss(plan, slice(None), batch.logp)
    parts = [objective.loss(plan, torch.tensor(rows), batch.logp[rows]) for rows in ([3, 0], [2], [1])]
    torch.testing.assert_close(sum(parts), total, rtol=1e-12, atol=0)


# ---- what is only said calculates nothing ----------------------------------------------------------------------------


@dataclass(frozen=True)
class SeamSilent(Modifier):
    """Cannot be calculated."""

    name = "seam_silent"
    paper = "arXiv:0000.00000"
    sets = frozenset({"high"})

    def modify(self, bounds: Bounds, batch: TokenBatch) -> Bounds:
        raise AssertionError("calculated")


def test_describing_an_objective_calculates_nothing(registries: None) -> None:
    register(SeamSilent)
    objective = parse("justrl+seam_silent")
    assert "seam_silent" in objective.equation
    assert objective.describe()["equation"] == objective.equation
    assert objective.key
    with pytest.raises(AssertionError, match="calculated"):
        objective.plan(batch_z())


def test_every_name_is_listed_with_its_own_words() -> None:
    for name in names():
        assert bool(name.doc) == (name.kind == "recipe")


# ---- identity --------------------------------------------------------------------------------------------------------


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.lists(st.sampled_from(SAMPLE), min_size=1, max_size=3), st.lists(st.integers(0, len(SAMPLE) - 1), max_size=3))
def test_the_key_of_an_objective_does_not_depend_on_what_is_registered(
    expressions: list[str], registered: list[int]
) -> None:
    before = [(parse(expression).key, parse(expression)) for expression in expressions]
    recipes = dict(RECIPES)
    try:
        for number in registered:
            parts = parse(SAMPLE[number]).parts
            recipe(f"seam_{number}", paper="", summary="", variants={"one": parts}, contribution=(parts[0].name,))
        for expression, (key, objective) in zip(expressions, before, strict=True):
            assert parse(expression).key == objective.key == key
            assert parse(parse(expression).expression) == objective
    finally:
        RECIPES.clear()
        RECIPES.update(recipes)


def test_the_key_says_every_parameter_in_stage_order() -> None:
    key = parse("stapo").key
    assert key.startswith(
        "group_norm(eps=1e-06) . token_ratio . clip(low=0.2) . clip_higher(high=0.28) . s2t(tau_p=0.002"
    )
    assert parse("justrl+s2t").key == key
    assert parse("stapo(q=0.8)").key != key
    assert parse(" stapo ( q = 0.80 ) ").key == parse("stapo(variant=v1)").key


def test_terms_are_read_as_written() -> None:
    first, second = read_terms("stapo(q=0.80) - s2t")
    assert (first.sign, first.name, first.parameters) == ("+", "stapo", {"q": 0.8})
    assert (second.sign, second.name, second.parameters) == ("-", "s2t", {})


# ---- the defaults of the kinds ---------------------------------------------------------------------------------------


def test_the_kinds_have_the_defaults_that_most_methods_want() -> None:
    class Plain(Surrogate):
        def loss(
            self, ratio: Tensor, logp: Tensor, advantage: Tensor, bounds: Bounds, extra: Mapping[str, Tensor]
        ) -> Tensor:
            return -ratio * advantage

    class Flat(Penalty):
        pass

    batch = batch_z()
    surrogate, aggregate = Plain(), next(part for part in parse("grpo").parts if isinstance(part, Aggregate))
    assert surrogate.extra(batch) == {}
    assert surrogate.bounds(batch) == Bounds()
    assert not surrogate.clips(batch.logp, batch.logp, Bounds()).any()
    assert torch.equal(Flat().coefficients(batch, aggregate), aggregate.coefficients(batch, batch.mask))
    assert not Reward.late
    assert surrogate.follows_advantage
    assert surrogate.reads_bounds == frozenset()
