"""What equations say of tokens in words: weights, ratios, masks, bounds and penalties."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tests.objectives.equations.parser import clipped, quotient
from tests.objectives.equations.rewards import ceil, largest, quantile

if TYPE_CHECKING:
    from tests.objectives.equations.reader import Reader


def log_ratio(reader: Reader, who: str) -> Tensor:
    return reader.logp - reader.logps[who]


def over_response(reader: Reader, what: str, values: Tensor) -> Tensor:
    total = values.where(reader.mask, 0.0).sum(1, keepdim=True)
    return total if what != "mean" else total / reader.mask.sum(1, keepdim=True).clamp(min=1)


def mismatch(reader: Reader, level: str | None) -> Tensor:
    change = reader.logps["old"] - reader.logps["sampler"]
    if level is None:
        return change.exp()
    what = {"product of ": "sum", "geometric mean of ": "mean"}[level]
    return over_response(reader, what, change).exp() + torch.zeros_like(change)


def perplexities(reader: Reader) -> Tensor:
    """[N, 1]"""
    logp, score = reader.logps["old"], torch.zeros(len(reader.mask), 1, dtype=torch.float64)
    for group in reader.groups_of(reader.mask.any(1)):
        values = -torch.stack([logp[row][reader.mask[row]].mean() for row in group.nonzero()[:, 0].tolist()])
        low, high = quantile(values, "25%"), quantile(values, "75%")
        usual = values[(values >= low - 1.5 * (high - low)) & (values <= high + 1.5 * (high - low))]
        deviation = float((usual - usual.mean()).square().mean().sqrt())
        score[group, 0] = (values - usual.mean()) / (deviation if deviation > 1e-6 else 1.0)
    return score


def places(reader: Reader) -> Tensor:
    """[N, T]"""
    before = reader.mask.double().cumsum(1) - reader.mask.double()
    return before / reader.mask.sum(1, keepdim=True).clamp(min=1)


def kalman(reader: Reader, q: str) -> Tensor:
    change, result = log_ratio(reader, "old").detach(), torch.zeros_like(reader.logp)
    for row, mask in enumerate(reader.mask):
        state = gain = 0.0
        for t in mask.nonzero()[:, 0].tolist():
            gain = (gain + float(q)) / (gain + float(q) + 1)
            state += gain * (float(change[row, t]) - state)
            result[row, t] = state
    return result


def smallest(reader: Reader, which: str) -> Tensor:
    ratio, result = log_ratio(reader, "old").detach().exp(), torch.ones_like(reader.logp)
    for row, mask in enumerate(reader.mask):
        before = [1.0] if which == "before it and 1" else []
        for t in mask.nonzero()[:, 0].tolist():
            if which == "up to it":
                before.append(float(ratio[row, t]))
            result[row, t] = min(before, default=1.0)
            if which != "up to it":
                before.append(float(ratio[row, t]))
    return result


def spurious(reader: Reader, p: str, tau: str, entropy: str, share: str, micro: str | None) -> Tensor:
    """A > 0 and p < tau and H below the quantile of H over the tokens with the first two."""
    silenced = torch.zeros_like(reader.mask)
    values = reader.names[entropy].detach()
    rare = reader.mask & (reader.names["A"] > 0) & (reader.names[p].detach() < float(tau))
    for pool in reader.pools(rare, bool(micro)):
        silenced |= pool & (values < quantile(values[pool], share))
    return silenced


def top(reader: Reader, entropy: str, share: str, micro: str | None) -> Tensor:
    kept = torch.zeros_like(reader.mask)
    for pool in reader.pools(reader.mask, bool(micro)):
        kept |= largest(reader.names[entropy].detach(), pool, max(1, ceil(share, int(pool.sum()))))
    return kept


def not_drawn(reader: Reader, fraction: str, micro: str | None, low: str, high: str) -> Tensor:
    """Only where the lot is for all of them: what a lot falls on, no text says."""
    kept = reader.mask.clone()
    for pool in reader.pools(reader.mask, bool(micro)):
        covariance = reader.covariance(pool)
        candidates = pool & (covariance > float(low)) & (covariance < float(high)) & ~held(reader)
        assert float(fraction) * int(pool.sum()) >= int(candidates.sum()), "a lot is drawn"
        kept &= ~candidates
    return kept


def kept_of_a_draw(reader: Reader, first: str, share: str, limit: str) -> Tensor:
    kept, lot = torch.zeros_like(reader.mask), reader.names["lot"]
    for row, mask in enumerate(reader.mask):
        for t, position in enumerate(mask.nonzero()[:, 0].tolist()):
            drawn = bool(lot[row, position] < float(share)) and int(kept[row].sum()) < int(limit)
            kept[row, position] = t < int(first) or drawn
    return kept


def held(reader: Reader) -> Tensor:
    """[N, T] bool: tokens where the clip of the loss is not idle."""
    match = re.search(r"clip\(r, ([^,]+), ([^)]+)\)", reader.loss_text)
    assert match is not None
    ratio, advantage = reader.names["p"].detach() / reader.names["p_old"], reader.names["A"]
    low, high = (reader.evaluate(text) for text in match.groups())
    return ((advantage > 0) & (ratio > high)) | ((advantage < 0) & (ratio < low))


def confidence(reader: Reader, share: str) -> Tensor:
    """[N, 1] the geometric mean of the probabilities of each response's least probable tokens."""
    result = torch.ones(len(reader.mask), 1, dtype=torch.float64)
    for row, mask in enumerate(reader.mask):
        logp = reader.logps["old"][row, mask].sort().values
        if len(logp):
            result[row] = logp[: max(1, ceil(share, len(logp)))].mean().exp()
    return result


def contrast(reader: Reader, sign: str, tau: str, relation: str) -> Tensor:
    """[N, 1] log(1 + sum of exp(-+s/tau)) over the good, or the other, responses of each row's group."""
    score = over_response(reader, "mean", log_ratio(reader, "old"))
    good = (reader.names["A"].sum(1) > 0) & reader.mask.any(1)
    others = ~good & reader.mask.any(1)
    result = torch.zeros(len(score), 1, dtype=torch.float64)
    for group in reader.groups_of(reader.mask.any(1)):
        if bool((group & good).any()) and bool((group & others).any()):
            kind = group & (good if relation == ">" else others)
            result = torch.where(
                group[:, None], ((-1.0 if sign else 1.0) * score[kind] / float(tau)).exp().sum(), result
            )
    return (1 + result).log()


def energies(reader: Reader) -> None:
    """W: what the squared gradients by the logits add up to; counted by the tokens that are there."""
    squares = torch.from_numpy(reader.case.sum_pi_squared_old)
    step = (1 - 2 * reader.logps["old"].exp() + squares).clamp(min=0)
    reader.names["W"] = torch.where(reader.mask, step, 0.0).cumsum(1)


def less_token_baseline(reader: Reader, alone: str) -> Tensor:
    reward, advantage = reader.names["R"], torch.zeros(reader.mask.shape, dtype=torch.float64)
    for group in reader.groups_of(reader.present()):
        rows = [(row, reader.mask[row].nonzero()[:, 0].tolist()) for row in group.nonzero()[:, 0].tolist()]
        for t in range(reader.mask.shape[1]):
            here = [(row, at[t]) for row, at in rows if t < len(at)]
            weights = [float(reader.names["W"][at]) for at in here]
            values = [float(reward[row, 0]) for row, _ in here]
            mean = float(reward[group].mean())
            below = sum(weights)
            base = sum(w * r for w, r in zip(weights, values, strict=True)) / below if below else mean
            for at, value in zip(here, values, strict=True):
                lonely = value if alone == "R" else 0.0
                advantage[at] = value - base if len(here) > 1 else lonely
    return advantage


def drifts(reader: Reader) -> None:
    """S, its mean over the group, k responses of the group and n tokens of the response: [N, 1] each."""
    change = over_response(reader, "sum", log_ratio(reader, "old"))
    mean, size = torch.zeros_like(change), torch.zeros_like(change)
    for group in reader.groups_of(reader.mask.any(1)):
        mean = torch.where(group[:, None], change[group].mean(), mean)
        size[group] = float(group.sum())
    tokens = reader.mask.sum(1, keepdim=True).clamp(min=1)
    reader.names |= {"s": change, "s_mean": mean, "k": size, "n": tokens}


def targets(reader: Reader, eta: str) -> None:
    """P and q of each response within its group, and k responses of the group: [N, 1] each."""
    log_p, old = (over_response(reader, "sum", logp) for logp in (reader.logp, reader.logps["old"]))
    tilt = over_response(reader, "mean", reader.names["A"]) / float(eta)
    p, q, size = (torch.zeros_like(old) for _ in range(3))
    for group in reader.groups_of(reader.mask.any(1)):
        p[group], q[group] = log_p.detach()[group].softmax(0), (old + tilt)[group].softmax(0)
        size[group] = float(group.sum())
    reader.names |= {"P": p, "q": q, "k": size}


def moved(reader: Reader, kind: str) -> Tensor:
    p, ratio = reader.names["p"].detach(), reader.names["r"].detach()
    then = p / ratio
    if kind == "tv":
        return (then - p).abs()
    rest, rest_then = (1 - p).clamp(min=0) + 1e-8, (1 - then).clamp(min=0)
    return then * (then / p).log() + rest_then * ((rest_then + 1e-8).log() - rest.log())


def height(reader: Reader, share: str, micro: str | None, signed: bool = True) -> Tensor:
    result = torch.zeros_like(reader.logp)
    for pool in reader.pools(reader.mask, bool(micro)):
        entropy = reader.entropy.detach()[pool].clamp(min=1e-8).log()
        before = max(1, ceil(share, len(entropy))) - 1 if signed else round(float(share) * (len(entropy) - 1))
        h = entropy - entropy.sort().values[before]
        result[pool] = torch.where(h > 0, quotient(h, h.max()), quotient(h, -h.min()) * (1 if signed else -1))
    return result.detach()


def shifted(reader: Reader, who: str, share: str) -> Tensor:
    """[N, 1] c(prompt) - c(y), 0 in groups that are not shifted."""
    prompt = torch.from_numpy(reader.case.logp_prompt).double().exp()[:, None]
    told = (reader.names["A"] != 0).any(1) if who == "rewards differ" else reader.correct[:, 0] == 1
    shifts = torch.zeros(len(told), 1, dtype=torch.bool)
    for group in reader.groups_of(torch.ones_like(told)):
        shifts[group] = bool(told[group].any())
    return (prompt - confidence(reader, share)).where(shifts, 0.0)


def future(reader: Reader, half_life: str, cap: str) -> Tensor:
    """The sum over the tokens from each one on of log r, discounted."""
    change, result = log_ratio(reader, "old").detach(), torch.zeros_like(reader.logp)
    for row, mask in enumerate(reader.mask):
        at = mask.nonzero()[:, 0].tolist()
        for i, t in enumerate(at):
            terms = [0.5 ** ((j - i) / float(half_life)) * float(change[row, at[j]]) for j in range(i, len(at))]
            counted = [math.exp(float(change[row, at[j]])) <= float(cap) for j in range(i, len(at))]
            result[row, t] = sum(term for term, counts in zip(terms, counted, strict=True) if counts)
    return result.detach()


def within(reader: Reader, factor: str, low: str, high: str, outside: str | None) -> Tensor:
    value = torch.as_tensor(reader.evaluate(factor)).detach()
    if outside:
        return value.where((value >= float(low)) & (value <= float(high)), 0.0)
    return value.clamp(float(low), float(high))


def surprising(
    reader: Reader,
    up: str,
    share: str,
    micro: str | None,
    p: str,
    down: str | None,
    target: str | None,
    moved: str | None,
) -> Tensor:
    weight, entropy = torch.ones(reader.mask.shape, dtype=torch.float64), reader.names["H_old"][reader.mask]
    amplify, attenuate = float(up), float(down or 1)
    if target is not None and len(entropy):
        if moved:
            step = 0.01 * float((float(target) - entropy.mean()).sign())
            amplify = min(max(amplify + step, 1.0), 1.5) if amplify > 1 else amplify
            attenuate = min(max(attenuate - step, 0.5), 1.0) if attenuate < 1 else attenuate
        if not entropy.mean() < float(target):
            return weight
    for sign, factor in ((1, amplify), (-1, attenuate)):
        for pool in reader.pools(reader.mask, bool(micro)):
            candidates = pool & (sign * reader.names["A"] > 0)
            weight[largest(-reader.names[p].detach(), candidates, ceil(share, int(candidates.sum())))] = factor
    return weight


def zoned(reader: Reader, factor: str, low: str, high: str) -> Tensor:
    ratio, height = log_ratio(reader, "old").detach().exp(), reader.names["h"]
    inside = (ratio > reader.evaluate(low)) & (ratio < reader.evaluate(high))
    return torch.where(torch.where(height > 0, ~inside, inside), reader.evaluate(factor), 1.0)


def balance(
    reader: Reader, steps: list[tuple[str, float]], target: str, share: bool, weighted: bool, micro: bool
) -> None:
    """Writes down how the bounds `low..most` of the clip are found, for when the loss names them."""

    def search(bounds: dict[str, tuple[float, float]]) -> tuple[Tensor, Tensor]:
        result = {name: torch.ones_like(reader.logp) * bounds[name][0] for name in bounds}
        ratio, advantage = log_ratio(reader, "old").detach().exp(), reader.names["A"]
        gain = advantage * reader.names["p_old"] if weighted else advantage
        for pool in reader.pools(reader.mask, micro):
            at = {name: low for name, (low, _) in bounds.items()}

            def reached(pool: Tensor = pool, at: dict[str, float] = at) -> bool:
                positive = (gain.clamp(min=0) * ratio.clamp(max=at["upper"]))[pool].sum()
                negative = ((-gain).clamp(min=0) * ratio.clamp(min=at["lower"]))[pool].sum()
                return bool(positive >= float(target) * (1 - 1e-6) * (negative + positive * share))

            for name, step in steps:
                low, most = bounds[name]
                for count in range(1, int((most - low) / step + 1e-9) + 1):
                    if reached():
                        break
                    at[name] = low + count * step
            for name, values in result.items():
                values[pool] = at[name]
        return result["lower"], result["upper"]

    reader.search = search


def searched_clip(reader: Reader, low: str, low_most: str, high: str, high_most: str) -> Tensor:
    assert reader.search is not None
    bounds = {"lower": (float(low), float(low_most)), "upper": (float(high), float(high_most))}
    return clipped(reader.names["r"], *reader.search(bounds))


def second_moment(reader: Reader, budget: str, micro: str | None) -> None:
    """The largest |z|, of those that harm, with that mean within the budget; just less, as it is clipped too."""
    tau = torch.full(reader.mask.shape, math.inf, dtype=torch.float64)
    z = reader.names["z"].detach()
    for pool in reader.pools(reader.mask, bool(micro)):
        squares = z[pool & (reader.names["A"] * z > 0)].square().sort().values
        if len(squares) and squares.mean() > float(budget):
            fits = [square for square in squares if squares.clamp(max=square).mean() < float(budget)]
            tau[pool] = 0.999999 * math.sqrt(fits[-1]) if fits else 0.0
    reader.names["tau"] = tau


def least_beyond(reader: Reader, budget: str) -> None:
    z = reader.names["z"].detach()
    squares = z[reader.mask & (reader.names["A"] * z > 0)].square().sort().values
    beyond = [square for square in squares if squares[squares <= square].mean() > float(budget)]
    reader.names["v"] = beyond[0] if beyond else math.inf


def lowered(reader: Reader, start: str, step: str, target: str) -> Tensor:
    """After one step from the start."""
    entropy = reader.names["H_old"][reader.mask].mean()
    sign = float(entropy > float(target)) - float(entropy < float(target))
    weight = min(1.0, max(0.0, float(start) + float(step) * sign))
    return torch.where(reader.names["A"] > 0, weight, 1.0)


def switched(reader: Reader, start: str, whose: str, before: str | None, target: str, *_: str) -> None:
    """The weight of the entropy in the first step, before which nothing switched it off."""
    values = reader.names["H_old"] if whose == "H_old" else -reader.logps["old"]
    is_on = before is not None or bool(values[reader.mask].mean() < float(target))
    reader.names["alpha"] = float(start) * is_on


def kl(reader: Reader, mean: str, sign: str, beta: str, estimator: str, who: str, clamp: str | None) -> Tensor:
    change = log_ratio(reader, who)
    if clamp:
        change = change.clamp(-float(clamp), float(clamp))
    value = {"k1": change, "k2": change.square() / 2, "k3": (-change).exp() + change - 1}[estimator]
    value = value.clamp(-10, 10) if clamp else value
    return float(f"{sign}{beta}") * reader.coefficients(mean, reader.mask) * value


def taught(reader: Reader, weight: str, old: str | None, clamp: str | None) -> Tensor:
    bound = float(clamp or "inf")
    return float(weight) * _gap(reader, old).clamp(-bound, bound)


def evidence(reader: Reader, old: str | None, low: str, high: str) -> Tensor:
    gap, advantage = _gap(reader, old), reader.names["A"]
    factor = torch.where(advantage > 0, gap.exp(), torch.where(advantage < 0, (-gap).exp(), 1.0))
    return factor.clamp(float(low), float(high))


def _gap(reader: Reader, old: str | None) -> Tensor:
    return reader.logps["teacher"] - (reader.logps["old"] if old else reader.logp.detach())


def likelihood(reader: Reader, mean: str, mu: str) -> Tensor:
    right = reader.mask & reader.names["right"]
    return -float(mu) * reader.logp.where(right, 0.0) / max(1, int(right.sum()))


def far_penalty(reader: Reader, mean: str, beta: str, fraction: str, micro: str | None) -> Tensor:
    chosen = torch.zeros_like(reader.mask)
    for pool in reader.pools(reader.mask, bool(micro)):
        covariance = reader.covariance(pool)
        count = max(1, int(float(fraction) * int(pool.sum()) + 1e-9))
        chosen |= largest(covariance, pool & (covariance > 0), count)
    value = log_ratio(reader, "old").abs()
    return (float(beta) * reader.coefficients(mean, reader.mask) * value).where(chosen, 0.0)


def rise(
    reader: Reader,
    first: str,
    one_step: str,
    second: str,
    other_step: str,
    measure: str,
    target: str,
    weight: str,
    micro: str,
) -> None:
    steps = [(first, float(one_step)), (second, float(other_step))]
    balance(reader, steps, target, measure == "P/(P + N)", bool(weight), bool(micro))
