"""The words of printed equations, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tests.objectives.equations.parser import Value
from tests.objectives.equations.rewards import (
    batch_deviation,
    decoupled,
    group_mean,
    group_success,
    length_weighted,
    less_others,
    outermost,
    over_batch_deviation,
    over_group,
    over_group_population,
    over_group_tokens,
    over_share,
    over_success,
    pass_at_k,
    quantile,
    whole_groups,
)
from tests.objectives.equations.tokens import (
    contrast,
    drifts,
    energies,
    evidence,
    far_penalty,
    future,
    height,
    kalman,
    kept_of_a_draw,
    kl,
    least_beyond,
    less_token_baseline,
    likelihood,
    log_ratio,
    lowered,
    mismatch,
    moved,
    not_drawn,
    over_response,
    perplexities,
    places,
    rise,
    searched_clip,
    second_moment,
    shifted,
    smallest,
    spurious,
    surprising,
    switched,
    targets,
    taught,
    top,
    within,
    zoned,
)
from tests.objectives.equations.turns import by_state, observed, returns

if TYPE_CHECKING:
    from tests.objectives.equations.reader import Reader

_MICRO = "( of each micro-batch)?"
NUMBER = r"(-?[\d.]+(?:e[+-]?\d+)?|inf)"


def _set(name: str, value: Callable[..., Value]) -> Callable[..., None]:
    def action(reader: Reader, *arguments: str) -> None:
        reader.assign(name, value(reader, *arguments))

    return action


def _weigh(value: Callable[..., Value]) -> Callable[..., None]:
    def action(reader: Reader, *arguments: str) -> None:
        reader.assign("A", reader.names["A"] * value(reader, *arguments))

    return action


def _add(value: Callable[..., Value]) -> Callable[..., None]:
    def action(reader: Reader, *arguments: str) -> None:
        reader.assign("A", reader.names["A"] + value(reader, *arguments))

    return action


def _mixed(reader: Reader) -> None:
    for group in reader.groups_of(torch.ones_like(reader.selected)):
        if len(reader.correct[group].unique()) == 1:
            reader.select(~group)


def _some_reward_differs(reader: Reader) -> None:
    for group in reader.groups_of(torch.ones_like(reader.selected)):
        if len(torch.from_numpy(reader.case.rewards)[group].unique(dim=0)) == 1:
            reader.select(~group)


PHRASES: list[tuple[re.Pattern[str], Callable[..., Value]]] = [
    (re.compile(pattern.replace("NUMBER", NUMBER)), value)
    for pattern, value in (
        (r"clip\(r, NUMBER\.\.NUMBER, NUMBER\.\.NUMBER\)", searched_clip),
        (
            r"(mean|sum) over the response of log pi\(y\) / pi_old\(y\)",
            lambda reader, what: over_response(reader, what, log_ratio(reader, "old")),
        ),
        (
            r"mean over the response of z\b",
            lambda reader: over_response(reader, "mean", reader.names["z"]),
        ),
        (r"Kalman filter of log pi\(y\) / pi_old\(y\) with noise NUMBER", kalman),
        (r"the smallest pi\(y\) / pi_old\(y\) (before it and 1|before it|up to it)", smallest),
        (
            r"sum of log p_old / p_ref from the token on",
            lambda reader: (
                (reader.logps["old"] - reader.logps["ref"]).where(reader.mask, 0.0).flip(1).cumsum(1).flip(1)
            ),
        ),
        (
            r"sum of log p_old / p_ref",
            lambda reader: over_response(reader, "sum", reader.logps["old"] - reader.logps["ref"]),
        ),
        (r"sum of log p/p_old from the token on, halved in NUMBER, without p/p_old > NUMBER", future),
        (
            r"mean of log p_(old|sampler) / p\b",
            lambda reader, who: over_response(reader, "mean", -log_ratio(reader, who).detach()),
        ),
        (r"(product of |geometric mean of )?p_old / p_sampler", mismatch),
        (r"mean over the group's others", lambda reader: reader.names["R"] - less_others(reader)),
        (r"sum \|y\| R / sum \|y\| over the group", lambda reader: reader.names["R"] - length_weighted(reader)),
        (r"mean over the group", group_mean),
        (r"\bA > 0 and (p|p_old) < NUMBER and (H|H_old) < their (\d+%) quantile( in each micro-batch)?", spurious),
        (r"\b(H|H_old) among the top (\d+%) of the tokens" + _MICRO, top),
        (
            r"\b(\w+) < its (\d+%) quantile",
            lambda reader, p, q: reader.names[p].detach() < quantile(reader.names[p].detach()[reader.mask], q),
        ),
        (
            r"not NUMBER of the tokens"
            + _MICRO
            + r", drawn where NUMBER < Cov\(log p, A\) < NUMBER and the clip is idle",
            not_drawn,
        ),
        (r"\(t < NUMBER or \(lot < NUMBER and n < NUMBER\)\)", kept_of_a_draw),
        (r"log\(1 \+ sum of exp\((-?)s/NUMBER\) over those with A (>|<=) 0\)", contrast),
        (
            r"r is on the side of A",
            lambda reader: (reader.names["A"] * (reader.names["r"].detach() - 1)) > 0,
        ),
        (r"log pi\(y\) / pi_(old|sampler)\(y\)", log_ratio),
        (r"log p_(old|sampler) / p\b", lambda reader, who: -log_ratio(reader, who)),
        (r"log p/p_(old|sampler|ref)", log_ratio),
        (r"log p_teacher / p\b", lambda reader: -log_ratio(reader, "teacher")),
        (r"pi\(y\) / pi_(old|sampler)\(y\)", lambda reader, who: log_ratio(reader, who).exp()),
        (r"(?<!\w)pi\(y\)", lambda reader: reader.names["p"]),
        (r"\blog p\b(?![_(/])", lambda reader: reader.logp),
        (r"\b(?:log|ln) r\b", lambda reader: reader.names["r"].log()),
        (r"\|y\|", lambda reader: reader.length),
    )
]
"""What is written in words, with spaces or with slashes -> its value, wherever it stands in an expression."""


STATEMENTS: list[tuple[re.Pattern[str], Callable[..., None]]] = [
    (re.compile(pattern.replace("NUMBER", NUMBER)), action)
    for pattern, action in (
        (r"one pass over the mini-batches|\d+ passes over the mini-batches", lambda reader: None),
        (r"v = the least z\^2 with mean of z\^2 up to it > NUMBER where A z > 0", least_beyond),
        (
            r"A \*= NUMBER where A > 0, moved by NUMBER a step, down while the mean of H_old < NUMBER, up above",
            _weigh(lowered),
        ),
        (
            r"alpha = NUMBER while the mean of (H_old|-log p_old)( a step ago)? < NUMBER, 0 otherwise, the number "
            r"moved by NUMBER a step, up while it was below, down above, within 0 \.\. NUMBER",
            switched,
        ),
        (
            r"s = sum over a response of log p/p_old, s_mean its mean over the group of k, n tokens of the response",
            drifts,
        ),
        (
            r"P = softmax over the group of the sum over a response of log p, q that of log p_old and A / NUMBER, "
            r"k responses",
            targets,
        ),
        (r"W = sum up to the token of 1 - 2 p_old \+ sum of p_old\^2", energies),
        (
            r"A = R - sum W R / sum W over the group's t-th tokens, (0|R) where it has one",
            _set("A", less_token_baseline),
        ),
        (
            r"A = sum of w \(R_k - mean\) / \(std \+ NUMBER\) over the group, "
            r"over its std over the batch's (rows|tokens)",
            _set("A", decoupled),
        ),
        (r"A = \(R - mean\) / std over the group, ddof 0", _set("A", over_group_population)),
        (r"G = sum over the turns from the token's on of their reward, discounted by NUMBER", returns),
        (
            r"A \+= NUMBER \* \(G - mean\)(?: / \(std \+ NUMBER\))? over the turns of the group from the same state",
            _add(by_state),
        ),
        (
            r"observed = written by the environment behind the policy's first token",
            _set("observed", observed),
        ),
        (r"A = 0", _set("A", lambda reader: 0 * reader.names["R"])),
        (r"A \+= NUMBER \* log p_teacher / p(_old)?(?:, within NUMBER)?", _add(taught)),
        (
            r"e = p_teacher / p(_old)? where A > 0 and p(?:_old)? / p_teacher where A < 0, in \[NUMBER, NUMBER\]",
            _set("e", evidence),
        ),
        (r"m = NUMBER(?:, falling to 0 over \d+ steps)?", _set("m", lambda reader, first: float(first))),
        (r"pass \d+: (.*)", lambda reader, text: reader.passes.append(text)),
        (r"counted: (.*)", lambda reader, text: setattr(reader, "counted", text)),
        (r"the penalties' means count all tokens", lambda reader: None),
        (r"max_v clips the value and keeps the gradient", lambda reader: None),
        (
            r"surprise = z-score of log PPL_old in the group, by those within Tukey's fences",
            _set("surprise", perplexities),
        ),
        (r"place = tokens of the response before it, over all of them", _set("place", places)),
        (
            r"lot = a number from 0 to 1 drawn for the token",
            _set("lot", lambda reader: torch.from_numpy(reader.case.lot).double() / 2.0**64 + 0.5),
        ),
        (r"n = tokens of the response before it that this draw keeps", lambda reader: None),
        (
            r"t = tokens of the response before it",
            _set("t", lambda reader: reader.mask.double().cumsum(1) - reader.mask.double()),
        ),
        (r"only NUMBER of the pairs of best and worst R in the group, ties by lot", outermost),
        (r"only groups with 0 < #correct < G, refilled", _mixed),
        (r"only groups in which some R_k differs, refilled", _some_reward_differs),
        (r"without truncated responses", lambda reader: reader.select(~torch.from_numpy(reader.case.truncated))),
        (
            r"(right|wrong|all) answers(?: only)?",
            lambda reader, which: reader.select(
                torch.ones_like(reader.selected) if which == "all" else reader.names[which][:, 0]
            ),
        ),
        (
            r"A = \(R - (mean|[\d.]+-quantile(?: \(linear\))?)\) / \(std \+ NUMBER\) over the group",
            _set("A", over_group),
        ),
        (
            r"A = \(R - mean\) / \(std \+ NUMBER\) over the group, but 1 or -1 where all are right or wrong and "
            r"earn the same",
            _set("A", whole_groups),
        ),
        (
            r"A = \(R - mean\) / \(std \+ NUMBER\) over the group's tokens, or over its responses where some "
            r"\|A\| >= NUMBER",
            _set("A", over_group_tokens),
        ),
        (
            r"A = \(R - (mean|mean over the group)\) / std over the batch's (rows|tokens)",
            _set("A", over_batch_deviation),
        ),
        (
            r"A = \(R - mean over the group\) / \(share of responses (in groups whose rewards differ|whose reward "
            r"is not 0)"
            r"(?: \+ NUMBER)?\)",
            _set("A", over_share),
        ),
        (r"A = \(R - mean over the group\) / \(std over the batch \+ NUMBER\)", _set("A", batch_deviation)),
        (r"A = \(c - mean\) / \(mean \+ NUMBER\) over the group, c correctness", _set("A", over_success)),
        (
            r"A = mean over the group's sets of (\d+) of \(pass@\d+ - rho\) / \(sqrt\(rho \(1 - rho\)\) \+ 1e-6\)",
            _set("A", pass_at_k),
        ),
        (
            r"A \+= NUMBER \(c\(prompt\) - c\(y\)\) where (rewards differ|one is right), c\(y\) over its (\d+%) "
            r"least probable",
            _add(lambda reader, alpha, who, share: float(alpha) * shifted(reader, who, share)),
        ),
        (
            r"A \*= NUMBER on the (\d+%) of the tokens" + _MICRO + r" with the least (p|p_old) where A > 0"
            r"(?:, NUMBER where A < 0)?(?: while the mean of H_old < NUMBER)?"
            r"(, each moved towards the target by 0\.01 a step)?",
            _weigh(surprising),
        ),
        (
            r"A \*= (.*) in \[NUMBER, NUMBER\], at most 1 where A < 0 and p/p_old > NUMBER",
            _weigh(
                lambda reader, factor, low, high, safe: torch.where(
                    (reader.names["A"] < 0) & (log_ratio(reader, "old").exp() > float(safe)),
                    within(reader, factor, low, high, None).clamp(max=1.0),
                    within(reader, factor, low, high, None),
                )
            ),
        ),
        (r"A \*= (.*), 0 outside \[NUMBER, NUMBER\]", _weigh(lambda reader, *texts: within(reader, *texts, "0"))),
        (r"A \*= (.*) in \[NUMBER, NUMBER\]", _weigh(lambda reader, *texts: within(reader, *texts, None))),
        (
            r"A \*= (.*), at most NUMBER",
            _weigh(lambda reader, factor, most: within(reader, factor, "-inf", most, None)),
        ),
        (r"A \*= (.*) where h > 0 and p/p_old is outside (.*) \.\. (.*), or h <= 0 and it is inside", _weigh(zoned)),
        (
            r"h = log H less its NUMBER quantile, over the largest size of its sign( in each micro-batch)?",
            _set("h", height),
        ),
        (
            r"h = \|log H less its NUMBER quantile, rounded\|, over the largest size of its sign"
            r"( in each micro-batch)?",
            _set("h", lambda reader, *texts: height(reader, *texts, signed=False)),
        ),
        (r"D = (tv|kl) of p / r and p", _set("D", moved)),
        (r"rho = mean of c over the group", _set("rho", lambda reader: group_success(reader))),
        (r"s = mean over a response of log p/p_old, and groups of one kind are left out", lambda reader: None),
        (
            r"tau = the largest \|z\| with mean of min\(z\^2, tau\^2\) < NUMBER where A z > 0( in each micro-batch)?",
            second_moment,
        ),
        (
            r"the (upper|lower) bound rises by NUMBER, then the (upper|lower) by NUMBER, until (P/\(P \+ N\)|P/N) "
            r">= NUMBER, "
            r"P and N the sums of (p_old )?\|A\| min\(p/p_old, upper\) where A > 0 and (?:p_old )?\|A\| "
            r"max\(p/p_old, lower\) where A < 0" + _MICRO,
            rise,
        ),
    )
]
"""What a statement in words does; others are `name = expression`, `name += expression` and the like."""


PENALTIES: list[tuple[re.Pattern[str], Callable[..., Tensor]]] = [
    (re.compile(pattern.replace("NUMBER", NUMBER)), value)
    for pattern, value in (
        (r"([-+]) NUMBER \* (k1|k2|k3)\(pi, pi_(ref|teacher)(?:, log p/p_\w+ within NUMBER)?\)", kl),
        (r"- NUMBER \* mean of log p over the tokens of right answers", likelihood),
        (
            r"- NUMBER \* mean over observed tokens of log p",
            lambda reader, mean, weight: -float(weight) * reader.logp / reader.names["observed"].sum().clamp(min=1),
        ),
        (
            r"\+ NUMBER \|log p/p_old\| on the NUMBER of the tokens" + _MICRO + r" with the largest Cov\(log p, A\)",
            far_penalty,
        ),
        (
            r"([-+]) NUMBER \* (.*)",
            lambda reader, mean, sign, number, text: (
                float(f"{sign}{number}") * reader.coefficients(mean, reader.mask) * reader.evaluate(text)
            ),
        ),
    )
]
"""What a penalty adds to the loss, token by token."""
