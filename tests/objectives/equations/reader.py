"""Reads a printed equation and calculates its gradient from the text alone, statement by statement, as it is printed.

An equation is a loss and the statements behind it: `L = ...; R += ...; A = ...; A *= ...; I = ...`. The statements are
carried out in that order, and the loss last. Sums, products, comparisons, functions and `X where C, Y elsewhere` are
parsed; what is written in words (`mean over the group`) is looked up in `PHRASES` and `STATEMENTS`. Nothing here is
shared with the package. Conventions of the notation:

- a row is a response; means, deviations and quantiles are of the tokens, or responses, that are selected;
- `std` over the group has ddof 1, over tokens or over the batch's rows 0; x / 0 is 0;
- nothing but the loss is differentiated: A, I, bounds and conditions are numbers, and so is all in `sg[...]`;
- `p` and `H` are the current policy's, `p_old` and `H_old` those of the rollouts.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.objectives.batches import Case, beyond_the_mask
from tests.objectives.equations.parser import Parser, Value
from tests.objectives.equations.vocabulary import PENALTIES, PHRASES, STATEMENTS

ANCHORS = ("old", "ref", "teacher", "sampler")
"""Whose log-probs a batch has besides the policy's."""


@dataclass(frozen=True)
class Gradient:
    """[N, T] each: minus the derivatives of a pass's loss."""

    by_logp: Tensor
    by_entropy: Tensor


def gradients(equation: str, case: Case) -> list[Gradient]:
    """Those of every pass at `case.current`, the whole batch being one mini-batch."""
    loss, *statements = equation.split("; ")
    passes = [text for text in statements if text.startswith("pass ")]
    again = re.search(r"; (\d+) passes over the mini-batches", equation)
    count = int(again[1]) if again else max(1, len(passes))
    return [Reader(case).gradient(loss, statements, number) for number in range(count)]


class Reader:
    """What the names in an equation are at a batch; statements add to them and change them."""

    def __init__(self, case: Case) -> None:
        self.case = beyond_the_mask(case, 0.0)
        self.mask = torch.from_numpy(case.mask)
        self.length = torch.from_numpy(case.length).double()[:, None]
        self.group = torch.from_numpy(case.group)
        self.micro_batch = torch.from_numpy(case.micro_batch)
        self.correct = torch.from_numpy(case.correct).double()[:, None]
        self.selected = torch.ones(len(self.mask), dtype=torch.bool)
        self.logp = torch.from_numpy(self.case.current).double().requires_grad_()
        self.entropy = torch.from_numpy(self.case.current_entropy).double().requires_grad_()
        self.logps = {who: torch.from_numpy(getattr(self.case, f"logp_{who}")) for who in ANCHORS}
        self.names: dict[str, Value] = {
            "R": torch.from_numpy(case.reward).double()[:, None],
            "c": self.correct,
            "right": self.correct == 1,
            "wrong": self.correct != 1,
            "limit": float(case.max_length),
            "p": self.logp.exp(),
            "pi": self.logp.exp(),
            "H": self.entropy,
            "H_old": torch.from_numpy(self.case.entropy_old),
            **{f"p_{who}": logp.exp() for who, logp in self.logps.items()},
        }
        self.passes: list[str] = []
        self.counted, self.loss_text = "", ""
        self.search: Callable[[], tuple[Tensor, Tensor]] | None = None

    def gradient(self, loss: str, statements: list[str], number: int) -> Gradient:
        """Of the pass with this number, counted from 0."""
        self.loss_text = loss
        for text in statements:
            self.carry_out(text)
        total = self.loss(loss.removeprefix("L = "), self.tokens_of_pass(number))
        found = torch.autograd.grad(total, (self.logp, self.entropy), allow_unused=True)
        return Gradient(*(torch.zeros_like(self.logp) if values is None else -values for values in found))

    # ---- statements ----------------------------------------------------------------------------------------------

    def carry_out(self, text: str) -> None:
        for pattern, action in STATEMENTS:
            if match := pattern.fullmatch(text):
                action(self, *match.groups())
                return
        match = re.fullmatch(r"(\w+) ([-+*]?)= (.*)", text)
        if match is None:
            raise ValueError(f"nothing is known of the statement {text!r}")
        name, sign, right = match.groups()
        value = self.evaluate(right)
        if sign:
            value = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}[sign](
                self.names[name], value
            )
        self.assign(name, value)

    def assign(self, name: str, value: Value) -> None:
        """Gives a name its value; with the advantage, what is not selected leaves the batch."""
        if name == "A":
            self.mask = self.mask & self.selected[:, None]
            value = (value.detach() + torch.zeros(self.mask.shape)).where(self.mask, 0.0)
            value = value.where(value.abs() > 1e-9, 0.0)  # what rounding leaves of equal rewards
        self.names[name] = value

    def select(self, rows: Tensor) -> None:
        """[N] bool: what is selected less the other rows."""
        self.selected = self.selected & rows

    def groups_of(self, rows: Tensor) -> Iterator[Tensor]:
        """[N] bool: those of these rows that are in each group."""
        for number in self.group[rows].unique():
            yield rows & (self.group == number)

    def present(self) -> Tensor:
        """[N] bool: rows of groups that selection has left; statistics of rewards are over them."""
        return torch.isin(self.group, self.group[self.selected])

    def pools(self, tokens: Tensor, of_micro_batches: bool) -> Iterator[Tensor]:
        """[N, T] bool: these tokens, or those of each micro-batch."""
        for number in self.micro_batch.unique() if of_micro_batches else [None]:
            pool = tokens if number is None else tokens & (self.micro_batch == number)[:, None]
            if pool.any():
                yield pool

    def per_group(self, statistic: Callable[[Tensor], Tensor | float]) -> Tensor:
        """[N, 1]: a statistic of the rewards of each group."""
        reward, rows = self.names["R"], self.present()
        result = torch.zeros(len(reward), 1, dtype=torch.float64)
        for group in self.groups_of(rows):
            result[group] = statistic(reward[group])
        return result

    # ---- the loss ------------------------------------------------------------------------------------------------

    def tokens_of_pass(self, number: int) -> Tensor:
        """[N, T] bool: those that a pass updates."""
        if not self.passes:
            return self.mask
        texts = [text for text in self.passes if text != "the rest"]
        chosen = self.mask & self.evaluate(texts[0])
        return chosen if self.passes[number] != "the rest" else self.mask & ~chosen

    def loss(self, text: str, tokens: Tensor) -> Tensor:
        """The sum over these tokens of the surrogate and the penalties, each over its denominator."""
        match = re.match(r"(mean over .*?) of -", text)
        assert match is not None, text
        surrogate, *penalties = _terms(text[match.end() :])
        kept = self.mask
        if surrogate.startswith("I "):
            surrogate, kept = surrogate[2:], self.mask & self.names["I"]
        counted = kept if self.counted == "I" else self.mask
        if self.counted not in ("", "I", "all tokens"):
            counted = self.mask & self.evaluate(self.counted)
        value = self.evaluate(surrogate)
        total = -(self.coefficients(match[1], counted) * value).where(tokens & kept, 0.0).sum()
        for penalty in penalties:
            where = self.names["observed"] if "over observed tokens" in penalty else tokens
            total = total + self.penalty(penalty, match[1]).where(where, 0.0).sum()
        return total

    def coefficients(self, mean: str, counted: Tensor) -> Tensor:
        """[N, T]: what each token is multiplied by."""
        rows = self.mask.any(1)
        responses = max(1, int(rows.sum()))
        share = torch.zeros(self.mask.shape, dtype=torch.float64)
        if match := re.fullmatch(r"mean over responses of the (mean|sum) over tokens(?: / (\w+))?", mean):
            over = counted.sum(1, keepdim=True).clamp(min=1) if match[1] == "mean" else torch.ones(len(rows), 1)
            fixed = 1.0 if match[2] is None else self.evaluate(match[2])
            return share + 1 / (responses * over * fixed)
        if mean == "mean over the counted tokens":
            return share + 1 / max(1, int(counted.sum()))
        if mean == "mean over the counted tokens of each prompt":
            groups = [group for group in self.groups_of(torch.ones_like(rows)) if rows[group].any()]
            for group in groups:
                share[group] = 1 / (len(groups) * max(1, int(counted[group].sum())))
            return share
        assert mean == "mean over the counted tokens of each micro-batch", mean
        for number in self.micro_batch.unique():
            pool = self.micro_batch == number
            share[pool] = int(rows[pool].sum()) / (responses * max(1, int(counted[pool].sum())))
        return share

    def penalty(self, text: str, mean: str) -> Tensor:
        """[N, T]: what each token adds to the loss."""
        for pattern, value in PENALTIES:
            if match := pattern.fullmatch(text):
                return value(self, mean, *match.groups())
        return self.coefficients(mean, self.mask) * self.evaluate(text)

    # ---- expressions ---------------------------------------------------------------------------------------------

    def evaluate(self, text: str) -> Value:
        """The value of an expression, or the truth of a condition."""
        names: dict[str, Value] = {}
        for pattern, value in PHRASES:
            while match := pattern.search(text):
                name = f"phrase{'abcdefghijklmnopqrstuvwxyz'[len(names)]}"
                names[name] = value(self, *match.groups())
                text = f"{text[: match.start()]} {name} {text[match.end() :]}"
        return Parser(text, self.names | names).whole()

    def covariance(self, pool: Tensor) -> Tensor:
        """[N, T]: of log p and A over a pool of tokens, token by token."""
        logp, advantage = self.logp.detach(), self.names["A"]
        apart = [values - values[pool].mean() for values in (logp, advantage)]
        apart = [values.where(values.abs() > 1e-12, 0.0) for values in apart]
        return (apart[0] * apart[1]).float()


def _terms(text: str) -> list[str]:
    """The surrogate, and each penalty with its sign: split at the pluses and minuses outside of parentheses."""
    depth, starts = 0, [0]
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and at and text[at - 1 : at + 2] in (" + ", " - "):
            starts.append(at)
    return [text[a:b].strip() for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
