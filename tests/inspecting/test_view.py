"""What the microscope says of a token is what the objective does to it."""

from dataclasses import replace

import pytest
import torch

from objectives import Action, Loop, TokenBatch, parse, random_keys, writers
from rlzoo.inspecting.view import compare_views, look, quadrants
from rlzoo.report.microscope_page import _details_of, _marks


def scored_batch(groups: int = 6, size: int = 4, width: int = 10) -> TokenBatch:
    """Rollouts of a policy that has not moved, with groups that differ in how many are right."""
    draw = torch.Generator().manual_seed(0)
    n = groups * size
    length = torch.randint(1, width + 1, (n,), generator=draw)
    mask = torch.arange(width) < length[:, None]
    correct = (torch.rand(n, generator=draw) < torch.linspace(0, 1, groups).repeat_interleave(size)).float()
    logp = -3 * torch.rand(n, width, generator=draw) ** 3
    return TokenBatch(
        mask=mask,
        group=torch.arange(groups).repeat_interleave(size),
        reward=correct,
        rewards=correct[:, None],
        correct=correct,
        truncated=length == width,
        max_length=width,
        logp_old=logp,
        entropy_old=torch.rand(n, width, generator=draw),
        logp_ref=logp - 0.1,
        logp_teacher=0.9 * logp,
        logp_sampler=logp,
        sum_pi_squared_old=(2 * logp).exp(),
        logp_prompt=logp[:, 0],
        writer=writers(mask, mask),
        turn=(torch.arange(width) // 4).repeat(n, 1),
        turn_reward=correct[:, None].repeat(1, width),
        turn_state=torch.zeros(n, width, dtype=torch.long),
        random_key=random_keys(torch.arange(groups).repeat_interleave(size), width, 0),
    )


def test_each_mini_batch_is_planned_by_itself() -> None:
    batch, objective = scored_batch(), parse("justrl+entropy20")
    view = look(objective, batch, minibatches=3)
    for rows in torch.arange(24).chunk(3):
        assert torch.equal(view.gradient[rows], objective.token_gradients(batch.rows(rows))[0])


@pytest.mark.parametrize(
    "expression",
    ["grpo-kl+entropy_advantage", "grpo-kl+entropy_advantage+ar", "dapo+ar", "lopti+stare(target_entropy=none)"],
)
def test_the_page_says_and_marks_what_the_account_has(expression: str) -> None:
    batch, objective = scored_batch(), parse(expression)
    now = batch.with_fields(logp=batch.logp_old, entropy=batch.entropy_old)
    view, step = look(objective, batch), Loop(objective, moved=True).begin(now)
    plan = step.plan(0)
    trace, after = plan.batch.trace, plan.batch.advantage.abs()
    before = batch.like_tokens(trace.of(Action.ADVANTAGE)[0].value).abs()
    in_first = [entry.value for entry in trace.of(Action.PASS) if entry.name == "policy"]
    for row, t in (batch.mask & plan.batch.mask).nonzero().tolist():
        assert _details_of(view, row, t + 1)["adds"] == sorted(entry.part for entry in trace.of(Action.ADD))
        marks = set(_marks(view, row, t))
        assert ("w" in marks, "v" in marks) == (
            after[row, t] > 1.05 * before[row, t],
            after[row, t] < 0.95 * before[row, t],
        )
        assert ("p" in marks) == any(bool(first[row, t]) for first in in_first)


def test_a_plan_by_reported_statistics_has_the_gradient_of_the_policy_that_is_updated() -> None:
    objective, batch = parse("stapo(tau_p=0.5,q=1)"), scored_batch()
    assert batch.logp_old is not None and batch.entropy_old is not None
    met = 1.05 * batch.logp_old, 2 * batch.entropy_old
    planned, seen = look(objective, batch), look(objective, batch, met=met)
    assert planned.masked["s2t"].any() and torch.equal(seen.masked["s2t"], planned.masked["s2t"])
    ratio = torch.where(batch.mask, (met[0] - batch.logp_old).exp(), 0.0)
    torch.testing.assert_close(seen.ratio, ratio)
    updated = planned.gradient != 0
    torch.testing.assert_close(seen.gradient[updated], (planned.gradient * ratio)[updated])


def test_masked_tokens_have_a_gradient_of_zero_and_another_without_the_part() -> None:
    batch, objective = scored_batch(), parse("stapo(tau_p=0.5,q=1)")
    view = look(objective, batch)
    masked = view.masked["s2t"]
    assert masked.any() and not view.gradient[masked].any()
    (without,) = parse("stapo(tau_p=0.5,q=1)-s2t").token_gradients(batch)
    assert torch.equal(view.without["s2t"], without) and (view.without["s2t"][masked] > 0).all()


def test_the_gradient_on_a_logit_is_the_derivative_through_the_softmax() -> None:
    batch, objective = scored_batch(), parse("justrl")
    view = look(objective, batch)
    logit = torch.logit(batch.require("logp_old", "test").double().exp()).requires_grad_()
    (view.gradient.double() * torch.nn.functional.logsigmoid(logit)).sum().backward()
    torch.testing.assert_close(view.logit_gradient.double(), logit.grad, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("expression", ["grpo", "stapo(tau_p=0.5)", "dapo", "lopti"])
def test_the_shares_of_all_kinds_of_tokens_add_up_to_one(expression: str) -> None:
    batch = scored_batch()
    kinds = quadrants(batch, look(parse(expression), batch), probable=0.7, uncertain=0.5)
    assert sum(kind.tokens for kind in kinds) == batch.mask.sum()
    for name in ("share", "gradient_share", "logit_share"):
        assert sum(getattr(kind, name) for kind in kinds) == pytest.approx(1)


def test_two_views_differ_in_what_one_masks() -> None:
    batch = scored_batch()
    plain, with_mask = look(parse("justrl"), batch), look(parse("stapo(tau_p=0.5,q=1)"), batch)
    same, other = compare_views(batch, plain, plain), compare_views(batch, plain, with_mask)
    assert same.cosine == pytest.approx(1) and same.opposite == 0 and same.only_updated == (0, 0)
    assert other.masked == (0, int(with_mask.masked["s2t"].sum())) == other.only_updated[::-1]
    assert other.cosine < 1
    reverse = replace(plain, gradient=-plain.gradient)
    assert compare_views(batch, plain, reverse).opposite == (plain.gradient != 0).sum()
