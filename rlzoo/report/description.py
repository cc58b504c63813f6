"""An objective as data for pages and programs: its description, LaTeX, gradient by ratio, and what goes with it."""

import re
from typing import Any

from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError
from objectives.expression import read_terms
from objectives.objective import Objective, parse
from objectives.ops import torch
from objectives.part import Modifier, Ratio, Stage, Surrogate
from objectives.zoo import PARTS, RECIPES, Recipe, lookup, with_examples
from objectives.zoo import names as all_names

RATIOS = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.28, 1.5, 2.0, 3.0, 4.0)
OLD_PROBABILITY = 0.2


def describe(objective: Objective) -> dict[str, Any]:
    """Its description, and: LaTeX, stages, the push by ratio, papers, departures, what goes with it.

    `departures` are what the recipe that its expression starts from says of the paper, of its code and of itself.
    """
    entry = lookup(read_terms(objective.expression)[0].name)
    return objective.describe() | {
        "latex": latex(objective.equation),
        "stages": [stage.name.lower() for stage in Stage if any(part.stage == stage for part in objective.parts)],
        "push": push_by_ratio(objective),
        "papers": list(dict.fromkeys(part.paper for part in objective.parts if part.paper)),
        "recipe": entry.name if isinstance(entry, Recipe) else "",
        "departures": departures(entry.doc) if isinstance(entry, Recipe) else [],
        **company(objective),
    }


def push_by_ratio(objective: Objective) -> dict[str, list[float]]:
    """The factor of a token's log-prob gradient for an advantage of 1 and of -1, before denominators, by its ratio.

    Of responses of one token, of probability 0.2 when sampled, by ratio, surrogate and its bounds alone.
    """
    kept = tuple(part for part in objective.parts if isinstance(part, Ratio | Surrogate | Modifier))
    rest = tuple(part for part in parse("grpo+seq_sum-kl").parts if not isinstance(part, Ratio | Surrogate))
    alone, count = Objective((*rest, *kept)), 2 * len(RATIOS)
    ratio = torch.tensor(RATIOS * 2, dtype=torch.float64)[:, None]
    sign = torch.tensor([1.0] * len(RATIOS) + [-1.0] * len(RATIOS), dtype=torch.float64)
    old = torch.full_like(ratio, OLD_PROBABILITY).log()
    batch = TokenBatch(
        mask=torch.ones_like(ratio, dtype=torch.bool),
        group=torch.zeros(count, dtype=torch.long),
        reward=sign,
        correct=(sign > 0).double(),
        advantage=sign,
        max_length=1,
        logp_old=old,
        logp_sampler=old,
        logp=old + ratio.log(),
        entropy=torch.ones_like(ratio),
        entropy_old=torch.ones_like(ratio),
        micro_batch=torch.zeros(count, dtype=torch.long),
    )
    (push,) = alone.token_gradients(batch)
    good, bad = (push[:, 0] * count).round(decimals=6).add(0.0).split(len(RATIOS))
    return {"ratio": [*RATIOS], "positive": good.tolist(), "negative": bad.tolist()}


def departures(doc: str) -> list[str]:
    """The sentences of a method's docstring that say what the paper leaves open, what is left out or done otherwise."""
    starts = r"(?:Open|Deviations|Left out|Variant\s+\w+)"
    paragraphs = re.findall(rf"^{starts}.*?(?=^{starts}|^\s*$|\Z)", doc + "\n", re.MULTILINE | re.DOTALL)
    return [" ".join(paragraph.split()) for paragraph in paragraphs]


def company(objective: Objective) -> dict[str, Any]:
    """Which parts may be added, whose place each then takes, and which may not, with the reason."""
    adds, replaces, excludes = [], {}, {}
    entries = {name.name: name for name in all_names() if name.kind == "part"}
    names = {part.name for part in objective.parts}
    for name, part in sorted(PARTS.items()):
        if name in names or part.origin or (name in RECIPES and name not in RECIPES[name].contribution):
            continue
        term = with_examples(entries[name])
        try:
            gone = names - {part.name for part in parse(f"{objective.expression}+{term}").parts}
        except ObjectiveError as error:
            excludes[name] = str(error)
            continue
        if gone:
            replaces[name] = sorted(gone)
        else:
            adds.append(name)
    return {"combines_with": adds, "replaces": replaces, "excludes": excludes}


# ---- LaTeX -----------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?|\.\.|[A-Za-z@][\w@'.-]*(?<![.-])|[<>=*+-]=|.")
_SYMBOLS = dict.fromkeys(["A", "G", "H", "I", "L", "R", "r", "p", "q", "c", "h", "s", "y", "z", "D"], "{}")
_SYMBOLS |= dict.fromkeys(["pi", "tau", "rho"], "\\{}") | dict.fromkeys(["min", "max", "exp", "log", "ln"], "\\{}")
_SYMBOLS |= dict.fromkeys(
    ["clip", "sg", "sigmoid", "Cov", "std", "tv", "square", "k1", "k2", "k3"], r"\operatorname{{{}}}"
)
_FACTOR = r"(?:[^()\[\],]|\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\])*?"
_SIGNS = {"<=": r"\leq ", ">=": r"\geq ", "*": r"\cdot ", "%": r"\% ", "#": r"\# ", "..": r"\ldots ", " ": " "}


def latex(equation: str) -> str:
    """What an objective's `equation` says, one aligned line for each part, for an `aligned` environment."""
    return " \\\\\n".join(_line(part) for part in equation.split("; "))


def _line(text: str) -> str:
    text = re.sub(rf"^(\w+) \*= ({_FACTOR})(?= where| on |, |$)", r"\1 <- (\2) \1", text)
    text = re.sub(r"^(\w+) ([+-])= ", r"\1 <- \1 \2 ", text)
    out: list[str] = []
    for token in _TOKEN.findall(text.replace("<-", "←")):
        word = token[0].isalpha() and _symbol(token) is None
        if word and out and out[-1].startswith(r"\text{"):
            out[-1] = f"{out[-1].rstrip()[:-1].rstrip()} {token} }}"
        elif word:
            out.append(rf"\text{{ {token} }}")
        elif token != " " or not (out and out[-1].startswith(r"\text{")):
            out.append(_set(token))
    return _rooted("".join(out).strip())


def _symbol(name: str) -> str | None:
    """A name as mathematics, with its index if it has one; None for a word."""
    stem, _, index = name.partition("_")
    if stem not in _SYMBOLS or "-" in name or "@" in name:
        return None
    return _SYMBOLS[stem].format(stem) + (rf"_{{\mathrm{{{index}}}}}" if index else "") + " "


def _set(token: str) -> str:
    if token[0].isdigit() and "e" in token:
        digits, _, power = token.partition("e")
        return (rf"{digits} \cdot " if digits != "1" else "") + f"10^{{{int(power)}}}"
    return r"\leftarrow " if token == "←" else _SIGNS.get(token) or _symbol(token) or token


def _rooted(text: str) -> str:
    """Square roots over what is in their parentheses."""
    while (at := text.find(r"\text{ sqrt }(")) >= 0:
        start = at + len(r"\text{ sqrt }(")
        end, depth = start, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = text[:at] + rf"\sqrt{{{text[start : end - 1]}}}" + text[end:]
    return text
