"""What verl's log says of an update is what the objective did in the whole mini-batch, however that was cut."""

from typing import Any

import pytest
import torch
from verl.utils.metric import Metric

from objectives import TokenBatch, parse
from objectives.adapters.verl import worker
from objectives.adapters.verl.worker import ROW, loss_of

RANKS, ROWS, LENGTH = 2, 24, 7


def test_the_log_sums_over_micro_batches_and_ranks_to_the_whole_minibatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "no_padding_2_padding", lambda values, data: values)
    draw = torch.Generator().manual_seed(0)
    logp_old, entropy = -2 * torch.rand(ROWS, LENGTH, generator=draw), torch.rand(ROWS, LENGTH, generator=draw)
    logp = logp_old + 0.3 * torch.randn(ROWS, LENGTH, generator=draw)
    batch = TokenBatch(
        mask=torch.arange(LENGTH) < torch.randint(1, LENGTH + 1, (ROWS, 1), generator=draw),
        group=torch.arange(ROWS) // 4,
        reward=torch.arange(ROWS).remainder(2).float(),
        logp_old=logp_old,
        logp=logp,
        logp_ref=logp_old,
        entropy_old=entropy,
        entropy=entropy,
        on_policy=False,
    )
    objective = parse("stapo(tau_p=0.5)+clip_higher+kl")
    plan = objective.plan(objective.prepare(batch))
    said: dict[str, list[Metric]] = {}
    for share in torch.arange(ROWS).chunk(RANKS):
        own: dict[str, Any] = {}
        for rows in share.split(5):
            _, metrics = loss_of(
                {"log_probs": logp[rows]}, {"dp_size": RANKS, ROW: rows}, objective=objective, plan=plan
            )
            for name, metric in metrics.items():
                own.setdefault(name, Metric(metric.aggregation)).append(metric)
        for name, metric in own.items():
            said.setdefault(name, []).append(metric)
    found = {name: Metric.aggregate_dp(metrics) for name, metrics in said.items()}
    mask, advantage = plan.batch.mask, plan.batch.require("advantage", "test").abs()
    apart = (logp_old - logp)[mask]
    expected = {"kl": float((apart.expm1() - apart).mean()), "pg_loss": float(objective.loss(plan, slice(None), logp))}
    for name, touched in objective.touched(plan, slice(None), logp).items():
        expected[f"touched/{name}/tokens"] = float(touched.sum() / mask.sum())
        expected[f"touched/{name}/mass"] = float((advantage * touched).sum() / advantage.sum())
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert 0 < found["touched/s2t/tokens"] < 1 and 0 < found["touched/clip_higher/mass"] < 1
