"""The pictures of docs/words.md, each calculated by the library that the word is about: python docs/draw_words.py."""

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "build_site")]

from gradients import RATIOS, bare, draw, gradient_by_ratio  # noqa: E402

from objectives import TokenBatch, parse  # noqa: E402
from rlzoo.report.drawing import DOWN, SOFT, UP  # noqa: E402
from rlzoo.statistics.aggregates import pass_at_k  # noqa: E402

GROUP = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
"""Rewards of one prompt's eight responses."""
CHOICES = np.array([0.62, 0.2, 0.1, 0.05, 0.03])
"""A policy's probabilities of the next token."""


def policy(axis: Axes) -> None:
    """Probabilities of the next token behind `17+25=`."""
    axis.bar(["4", "3", "5", "2", "1"], CHOICES, color=UP)
    axis.set_xlabel("next token after 17+25=")
    axis.set_ylabel("probability")


def log_prob(axis: Axes) -> None:
    """What a probability is as a log-prob."""
    probability = np.linspace(0.005, 1, 200)
    axis.plot(probability, np.log(probability), color=UP, linewidth=2)
    axis.plot(CHOICES, np.log(CHOICES), "o", color=UP)
    axis.set_xlabel("probability")
    axis.set_ylabel("log-prob (nats)")


def advantages(expression: str) -> torch.Tensor:
    """[G] those of the group."""
    mask = torch.ones(len(GROUP), 1, dtype=torch.bool)
    return parse(expression).advantages(TokenBatch(mask=mask, group=torch.zeros(len(GROUP)).long(), reward=GROUP))


def advantage(axis: Axes) -> None:
    """The group's rewards, and what each response has of them."""
    found, places = advantages("justrl"), np.arange(1, 9)
    axis.bar(places, found, color=[UP if it > 0 else DOWN for it in found])
    axis.axhline(0, color=SOFT, linewidth=0.8)
    axis.set_xlabel("response of the group; 1 and 4 are right")
    axis.set_ylabel("advantage")


def group(axis: Axes) -> None:
    """The advantage of a right answer by how many of eight are right."""
    right = range(1, 8)
    found = []
    for count in right:
        rewards = torch.tensor([1.0] * count + [0.0] * (8 - count))
        batch = TokenBatch(mask=torch.ones(8, 1, dtype=torch.bool), group=torch.zeros(8).long(), reward=rewards)
        found.append(parse("justrl").advantages(batch)[[0, -1]])
    axis.plot(right, [float(it[0]) for it in found], "o-", color=UP, label="of a right answer")
    axis.plot(right, [float(it[1]) for it in found], "o-", color=DOWN, label="of a wrong one")
    axis.axhline(0, color=SOFT, linewidth=0.8)
    axis.set_xlabel("right answers among eight")
    axis.set_ylabel("advantage")
    axis.legend(frameon=False)


def ratio(axis: Axes) -> None:
    """Probabilities before and after an update."""
    after = np.array([0.7, 0.17, 0.07, 0.04, 0.02])
    places = np.arange(5)
    axis.bar(places - 0.2, CHOICES, 0.38, color=SOFT, label="when it was sampled")
    axis.bar(places + 0.2, after, 0.38, color=UP, label="now")
    for place, old, new in zip(places, CHOICES, after, strict=True):
        axis.text(place, max(old, new) + 0.01, f"r = {new / old:.2f}", ha="center", fontsize=8)
    axis.set_xticks(places, ["4", "3", "5", "2", "1"])
    axis.set_ylabel("probability")
    axis.legend(frameon=False)


def clip(axis: Axes) -> None:
    """Where the gradient ends."""
    objective = bare(parse("justrl"))
    axis.plot(RATIOS, gradient_by_ratio(objective, 1), color=UP, linewidth=2, label="A = 1")
    axis.plot(RATIOS, gradient_by_ratio(objective, -1), color=DOWN, linewidth=2, label="A = -1")
    axis.axvspan(0.8, 1.28, color=SOFT, alpha=0.15, linewidth=0)
    axis.set_xlabel("importance ratio; shaded: between the bounds 0.8 and 1.28")
    axis.set_ylabel("gradient on log p")
    axis.legend(frameon=False)


def surrogate(axis: Axes) -> None:
    """What is maximised."""
    r = RATIOS.numpy()
    axis.plot(r, np.minimum(r, np.clip(r, 0.8, 1.28)), color=UP, linewidth=2, label="A = 1")
    axis.plot(r, np.minimum(-r, -np.clip(r, 0.8, 1.28)), color=DOWN, linewidth=2, label="A = -1")
    axis.set_xlabel("importance ratio")
    axis.set_ylabel("min(r A, clip(r) A)")
    axis.legend(frameon=False)


def entropy(axis: Axes) -> None:
    """Two places with different entropies."""
    sure = np.array([0.97, 0.01, 0.01, 0.005, 0.005])
    places = np.arange(5)
    for offset, values, color in ((-0.2, CHOICES, UP), (0.2, sure, DOWN)):
        axis.bar(places + offset, values, 0.38, color=color, label=f"{-(values * np.log(values)).sum():.2f} nats")
    axis.set_xticks(places, ["4", "3", "5", "2", "1"])
    axis.set_ylabel("probability")
    axis.legend(frameon=False, title="entropy")


def divergence(axis: Axes) -> None:
    """The three estimators of the divergence, by the ratio to the reference."""
    r = torch.linspace(0.2, 3, 200)
    for name, color in (("k1", SOFT), ("k2", DOWN), ("k3", UP)):
        (part,) = (it for it in parse(f"justrl+kl(estimator={name},beta=1)").parts if it.name == "kl")
        batch = TokenBatch(mask=torch.ones(1, 200, dtype=torch.bool), logp_ref=torch.zeros(1, 200))
        axis.plot(r, part.penalty(batch, r.log()[None], None)[0], color=color, linewidth=2, label=name)
    axis.set_xlabel("policy over reference, of the sampled token")
    axis.set_ylabel("estimate (nats)")
    axis.legend(frameon=False)


def at_k(axis: Axes) -> None:
    """pass@k beside avg@k for problems of different difficulty."""
    correct = np.random.default_rng(0).random((512, 32)) < np.random.default_rng(1).beta(0.4, 0.6, (512, 1))
    sizes = [1, 2, 4, 8, 16, 32]
    axis.plot(sizes, [100 * pass_at_k(correct, k).mean() for k in sizes], "o-", color=UP, label="pass@k")
    axis.axhline(100 * correct.mean(), color=DOWN, label="avg@k")
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [str(it) for it in sizes])
    axis.set_xlabel("k, samples of each problem")
    axis.set_ylabel("%")
    axis.legend(frameon=False)


def mass(axis: Axes) -> None:
    """What a mask leaves, counted in tokens and in advantage mass."""
    torch.manual_seed(0)
    advantage = torch.randn(400)
    kept = advantage.abs() > 1
    shares = [float(kept.float().mean()), float(advantage[kept].abs().sum() / advantage.abs().sum())]
    axis.barh(["of the tokens", "of the advantage mass"], [100 * it for it in shares], color=[SOFT, UP])
    axis.set_xlabel("% that a mask on |A| > 1 keeps")


PICTURES = {
    "policy": policy,
    "log_prob": log_prob,
    "group": group,
    "advantage": advantage,
    "ratio": ratio,
    "clip": clip,
    "surrogate": surrogate,
    "entropy": entropy,
    "kl": divergence,
    "pass_at_k": at_k,
    "advantage_mass": mass,
}

if __name__ == "__main__":
    for name, drawing in PICTURES.items():
        draw(HERE / "pictures" / f"{name}.svg", name, drawing)
