"""The token microscope as one HTML page that needs nothing else, and on the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.text import Text
from torch import Tensor

from rlzoo.files import slug, write_text
from rlzoo.inspecting.microscope import PAGES, Microscope
from rlzoo.inspecting.view import View
from rlzoo.report.table import plain_console, shortened, templates
from rlzoo.tasks.base import Problem

LEVELS = 8
"""Shades of a colour."""
NOTABLE = 0.05
"""What weights and summands change the advantage by, of its size, is not marked in the text if it is less."""
WHITE = {" ": "\u00b7", "\n": "\u21b5", "\t": "\u21e5", "\r": "\u240d"}
KINDS = {
    (True, False): ("routine", "probable, and the model was sure"),
    (True, True): ("the likelier way", "probable, at a place with several ways on"),
    (False, True): ("exploration", "improbable, at a place with several ways on"),
    (False, False): ("surprise", "improbable, though the model leaned to something else"),
}
"""Probable, uncertain -> what such a token is called, and what that means."""


@dataclass(frozen=True)
class Shade:
    """A token as it is drawn: its text, and its classes for colour and marks."""

    text: str
    classes: str
    begins: int = 0
    """The number of the turn whose first token it is, from 1, in a response of several; 0: it is none's first."""


@dataclass(frozen=True)
class DrawnResponse:
    """A response as it is drawn; `number` counts all that are shown."""

    number: int
    times: int
    """How many responses of the group are the same, token by token."""
    right: bool
    truncated: bool
    reward: float
    advantages: Sequence[float]
    left_out: Sequence[str]
    length: int
    tokens: Sequence[Shade]


@dataclass(frozen=True)
class Group:
    """A prompt and the responses to it."""

    prompt: str
    answer: str
    size: int
    right: int
    responses: Sequence[DrawnResponse]


def show_microscope(scope: Microscope, quiet: bool = False) -> Path:
    """Writes the page, says where it is, and returns that."""
    console, output = plain_console(quiet), scope.settings.output
    path = Path(output) if output else scope.folder / PAGES / f"{_name(scope)}.html"
    write_text(path, microscope_page(scope))
    for line in (provenance(scope), *map(summary, scope.views)):
        console.print(Text(line))
    console.print(Text(f"page  {path}"), soft_wrap=True)
    return path


def _name(scope: Microscope) -> str:
    names = "-against-".join(slug(str(view.objective)) for view in scope.views)
    return f"step-{scope.step:06d}-{names}"[:200]


def provenance(scope: Microscope) -> str:
    """Where the rollouts come from, in a sentence or two."""
    steps, next_step = scope.experiment.config.train.steps, scope.step + 1
    who = f"the policy after {scope.step} steps" if scope.step else "the starting model"
    if next_step > steps:
        return f"Sampled by {who}; the run ended there, so these are the rollouts it would have trained on next."
    if not scope.recorded:
        return f"Sampled by {who}, as step {next_step} samples them."
    same = sum(scope.recorded)
    if same == len(scope.recorded):
        agree = f"all {same} that the run recorded agree"
        return f"The rollouts that step {next_step} trained on, sampled again by {who}: {agree}."
    return (
        f"Sampled again by {who}, but only {same} of the {len(scope.recorded)} that step {next_step} recorded agree: "
        f"this is another machine, or other versions, than those of the run."
    )


def summary(view: View) -> str:
    """What an objective does, in a line."""
    shares = ", ".join(f"{name} {100 * share:.3g} %" for name, share in fates(view).items() if share)
    return f"{view.objective}: {shares}"


def fates(view: View) -> dict[str, float]:
    """What becomes of the tokens, as shares of all."""
    tokens, masked = view.tokens, view.tokens & view.any_masked
    dropped = tokens & view.left_out_rows[:, None] & ~masked
    rest = tokens & ~masked & ~dropped
    counts = {
        "more probable": rest & (view.gradient > 0),
        "less probable": rest & (view.gradient < 0),
        "masked": masked,
        "left out": dropped,
        "no gradient": rest & (view.gradient == 0),
    }
    return {name: float(chosen.sum()) / max(1, int(tokens.sum())) for name, chosen in counts.items()}


# ---- the page --------------------------------------------------------------------------------------------------------


def microscope_page(scope: Microscope) -> str:
    """The page. Whatever a model or a user wrote is escaped."""
    groups, details = _groups(scope)
    return (
        templates()
        .get_template("microscope.html")
        .render(
            scope=scope,
            config=scope.experiment.config,
            provenance=provenance(scope),
            names=[str(view.objective) for view in scope.views],
            described=[view.objective.describe() for view in scope.views],
            fates=[fates(view) for view in scope.views],
            groups=groups,
            details=details,
            levels=range(1, LEVELS + 1),
            kinds=KINDS,
            quadrants=[_by_kind(quadrants) for quadrants in scope.quadrants],
            comparison=scope.comparison,
            shortened=shortened,
            number=number,
        )
    )


def _by_kind(quadrants: Sequence[Any]) -> dict[tuple[bool, bool], dict[int, Any]]:
    return {
        kind: {quadrant.sign: quadrant for quadrant in quadrants if (quadrant.probable, quadrant.uncertain) == kind}
        for kind in KINDS
    }


def _groups(scope: Microscope) -> tuple[list[Group], dict[str, Any]]:
    """What is drawn, and the numbers behind it for the panel, response by response."""
    experiment, batch = scope.experiment, scope.batch
    correct, truncated = batch.require("correct", "page"), batch.require("truncated", "page")
    group = batch.require("group", "page")
    drawn: list[Group] = []
    behind: list[dict[str, Any]] = []
    shades = _all_shades(scope.views)
    for rows in scope.shown:
        problem = experiment.problems(int(group[rows[0]]), 1)[0]
        responses = []
        for row, times in _different(scope, rows):
            length = int(scope.collected.rollouts.lengths[row])
            responses.append(
                DrawnResponse(
                    number=len(behind),
                    times=times,
                    right=bool(correct[row] > 0.5),
                    truncated=bool(truncated[row]),
                    reward=float(scope.views[0].reward[row]),
                    advantages=[float(view.response_advantage[row]) for view in scope.views],
                    left_out=sorted({name for view in scope.views for name, out in view.left_out.items() if out[row]}),
                    length=length,
                    tokens=_tokens(scope, row, min(length, scope.settings.tokens), shades),
                )
            )
            behind.append(_details(scope, row, min(length, scope.settings.tokens)))
        answer = shortened(str(problem.answer), 200)
        drawn.append(Group(_prompt(problem), answer, len(rows), int((correct[rows] > 0.5).sum()), responses))
    views = [{"name": str(view.objective), "unit": number(view.unit)} for view in scope.views]
    return drawn, {"views": views, "responses": behind}


def _prompt(problem: Problem) -> str:
    if isinstance(problem.prompt, str):
        return shortened(problem.prompt, 1500)
    return shortened("\n\n".join(f"{message['role']}: {message['content']}" for message in problem.prompt), 1500)


def _different(scope: Microscope, rows: Tensor) -> list[tuple[int, int]]:
    """The rows whose tokens no earlier row of the group has, and how many rows have them."""
    rollouts = scope.collected.rollouts
    same: dict[tuple[int, ...], list[int]] = {}
    for row in rows.tolist():
        same.setdefault(tuple(rollouts.tokens[row, : int(rollouts.lengths[row])].tolist()), []).append(row)
    return [(copies[0], len(copies)) for copies in same.values()]


def _all_shades(views: Sequence[View]) -> dict[str, Tensor]:
    """Gradient of the first view `a`, of the second `b`, their difference `d`; the same on logits: `e`, `f`, `g`."""
    shades = {key: _shades(view.gradient) for key, view in zip("ab", views, strict=False)}
    shades |= {key: _shades(view.logit_gradient) for key, view in zip("ef", views, strict=False)}
    if len(views) == 2:
        first, second = views
        shades["d"] = _shades(second.gradient / second.unit - first.gradient / first.unit)
        shades["g"] = _shades(second.logit_gradient / second.unit - first.logit_gradient / first.unit)
    return shades


def _shades(gradient: Tensor) -> Tensor:
    """[N, T] int from -LEVELS to LEVELS; the strongest fiftieth share the strongest shade, what is not 0 has one."""
    sizes = gradient[gradient != 0].abs()
    if not len(sizes):
        return torch.zeros_like(gradient, dtype=torch.long)
    strongest = sizes.sort().values[int(0.98 * (len(sizes) - 1))]
    return (gradient.sign() * (LEVELS * gradient.abs() / strongest).ceil().clamp(max=LEVELS)).long()


def _tokens(scope: Microscope, row: int, count: int, shades: dict[str, Tensor]) -> list[Shade]:
    """Classes: `a3` is the third shade of more probable in the first view, `b-2` the second of less in the second."""
    tokenizer, ids = scope.experiment.tokenizer, scope.collected.rollouts.tokens[row, :count].tolist()
    shown, turns = [], _turns(scope, row, count)
    for t, token in enumerate(ids):
        special = tokenizer.is_special(token)
        classes = [f"{key}{int(shade[row, t])}" for key, shade in shades.items() if shade[row, t]]
        for key, view in zip("ab", scope.views, strict=False):
            classes += [f"{key}{mark}" for mark in _marks(view, row, t)]
        classes += ["special"] * special + ["heard"] * bool(scope.heard[row, t])
        text, begins = tokenizer.piece(token), turns[t] if turns[t] not in turns[:t] else 0
        shown.append(Shade(text if special else spaced(text), " ".join(classes), begins if max(turns) > 1 else 0))
    return shown


def _turns(scope: Microscope, row: int, count: int) -> list[int]:
    """Of each token the policy's turn that it belongs to, from 1; 0 where the environment wrote it."""
    turn = scope.batch.turn
    if turn is None:
        return [0] * count
    return (turn[row, :count] + 1).where(scope.batch.mask[row, :count], 0).tolist()


def _marks(view: View, row: int, t: int) -> list[str]:
    """Masked, clipped, advantage made larger or smaller by weights, updated in the first of several passes."""
    before, after = abs(float(view.unweighted[row, t])), abs(float(view.weighed[row, t]))
    is_weighed = not view.left_out_rows[row]
    marks = [
        ("s", bool(view.any_masked[row, t])),
        ("c", bool(view.clipped[row, t])),
        ("w", is_weighed and after > (1 + NOTABLE) * before),
        ("v", is_weighed and after < (1 - NOTABLE) * before),
        ("p", view.objective.pass_count > 1 and int(view.update_pass[row, t]) == 1),
    ]
    return [mark for mark, here in marks if here]


def _details(scope: Microscope, row: int, count: int) -> dict[str, Any]:
    """What the panel says of each token of a response, column by column."""
    batch, tokenizer = scope.batch, scope.experiment.tokenizer
    ids, heard = scope.collected.rollouts.tokens[row, :count].tolist(), scope.heard[row, :count]
    unknown = heard & (not scope.learns_observations)
    columns = {
        "right": bool(batch.require("correct", "page")[row] > 0.5),
        "length": int(scope.collected.rollouts.lengths[row]),
        "heard": heard.nonzero()[:, 0].tolist(),
        "text": [visible(tokenizer.piece(token)) for token in ids],
        "p": numbers(batch.require("logp_old", "page")[row, :count].exp(), unknown),
        "h": numbers(batch.require("entropy_old", "page")[row, :count], unknown),
        "views": [_details_of(view, row, count) for view in scope.views],
    }
    if batch.turn is not None:
        columns["turn"] = _turns(scope, row, count)
        columns["turns"] = int(batch.turn[row].max()) + 1
        columns["earned"] = numbers(batch.require("turn_reward", "page")[row, :count])
        columns["state"] = batch.require("turn_state", "page")[row, :count].tolist()
    return columns


def _details_of(view: View, row: int, count: int) -> dict[str, Any]:
    masked = {name: tokens[row, :count] for name, tokens in view.masked.items() if tokens[row, :count].any()}
    columns: dict[str, Any] = {
        "reward": number(float(view.reward[row])),
        "response": number(float(view.response_advantage[row])),
        "out": [name for name, out in view.left_out.items() if out[row]],
        "advantage": numbers(view.advantage[row, :count]),
        "ratio": numbers(view.ratio[row, :count]),
        "gradient": numbers(view.gradient[row, :count]),
        "logit": numbers(view.logit_gradient[row, :count]),
        "weights": {name: numbers(weight[row, :count]) for name, weight in view.weights.items()},
        "adds": sorted(view.summands),
        "masked": {name: tokens.nonzero()[:, 0].tolist() for name, tokens in masked.items()},
        "without": {name: numbers(view.without[name][row, :count]) for name in masked},
        "clipped": view.clipped[row, :count].nonzero()[:, 0].tolist(),
    }
    if view.objective.pass_count > 1:
        columns["pass"] = view.update_pass[row, :count].tolist()
    if bool((view.penalty != 0).any()):
        columns["penalty"] = numbers(view.penalty[row, :count])
    return columns


# ---- text and numbers ------------------------------------------------------------------------------------------------


def number(value: float) -> float:
    """Four digits, which is more than is shown."""
    return float(f"{value:.4g}")


def numbers(values: Tensor, unknown: Tensor | None = None) -> list[float | None]:
    """Four digits each; None where one is unknown."""
    hidden = [False] * len(values) if unknown is None else unknown.tolist()
    return [None if is_hidden else number(value) for value, is_hidden in zip(values.tolist(), hidden, strict=True)]


def visible(text: str) -> str:
    """Text whose white space and control characters can be seen."""
    return "".join(WHITE.get(char) or (chr(0x2400 + ord(char)) if ord(char) < 32 else char) for char in text)


def spaced(text: str) -> str:
    """Text to read: spaces stay, unless they are all there is; line breaks are seen and break lines."""
    if text.strip(" ") == "":
        return visible(text)
    return "".join(char if char == " " else visible(char) + "\n" * (char == "\n") for char in text)
