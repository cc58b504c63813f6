"""A page for each method, from its docstring and what it says of itself; and one with every part."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evidence_pages import claims_list, failure_mode_words
from gradients import draw_gradient
from links import write_changed

from objectives import (
    REQUIRED,
    Name,
    Objective,
    Stage,
    names,
    parse,
    with_examples,
)
from objectives.zoo import PARTS, RECIPES
from rlzoo.report.provenance import HOW, MISSING, PROVENANCE, Provenance
from rlzoo.report.zoo import costs


def write(folder: Path) -> None:
    """Writes every method's page, the list of them, and the parts."""
    recipes = [name for name in names() if name.kind == "recipe"]
    for name in recipes:
        objective = parse(with_examples(name))
        drawn = draw_gradient(folder / f"{name.name}.svg", name.name, objective)
        write_changed(folder / f"{name.name}.md", method_page(name, objective, drawn))
    write_changed(folder / "index.md", list_page(recipes))
    write_changed(folder / "provenance.md", provenance_page())
    write_changed(folder / "parts.md", parts_page([name for name in names() if name.kind == "part"]))


# ---- one method ------------------------------------------------------------------------------------------------------


def method_page(name: Name, objective: Objective, drawn: bool) -> str:
    """The page of a method; `drawn`: whether there is a picture of its gradient."""
    described = objective.describe()
    aliases = "".join(f", `{alias}`" for alias in name.aliases)
    pieces = [
        f"# {name.name}",
        f"{name.summary[0].upper()}{name.summary[1:]}. {paper_link(name.paper)}.",
        f"In expressions: `{name.name}`{aliases}.",
        variant_table(name),
        open_numbers(name),
        "## Equation",
        "```text\n" + described["equation"].replace("; ", "\n") + "\n```",
        "## Stages",
        stage_row(described["parts"]),
        "## Gradient",
        gradient_words(name, drawn),
        "## In its own words",
        docstring(name.doc),
        "## Held against",
        provenance_table([row for row in PROVENANCE if row.recipe == name.name], with_recipe=False),
        "## Parameters",
        parameter_table(described["parts"]),
        "## Costs",
        "\n".join(f"- {line}" for line in costs(objective)) or "Nothing beyond a forward and a backward pass.",
        "## Failure modes that it addresses",
        failure_mode_words(name),
        "## What was found",
        claims_list(RECIPES[name.name].contribution),
    ]
    return "\n\n".join(piece for piece in pieces if piece) + "\n"


def variant_table(name: Name) -> str:
    """What each variant is, as an expression."""
    rows = [f"| `{variant}` | `{text}` |" for variant, text in zip(name.variants, name.expressions, strict=True)]
    return "\n".join(["| variant | is |", "|---|---|", *rows])


def paper_link(paper: str) -> str:
    """A link to a paper, or its name."""
    number = paper.removeprefix("arXiv:")
    if number != paper:
        return f"[{paper}](https://arxiv.org/abs/{number})"
    return f"[{paper}](https://doi.org/{paper.removeprefix('doi:')})" if paper.startswith("doi:") else paper


def open_numbers(name: Name) -> str:
    """What a user must give, because no paper does."""
    if not name.required_parameters:
        return ""
    given = ", ".join(f"`{it}`" for it in name.required_parameters)
    return (
        f"We know no published value of {given}, so it must be given; below stands `{with_examples(name)}`, an example."
    )


def stage_row(parts: Sequence[dict[str, Any]]) -> str:
    """The ten stages in a row, each with the method's parts."""
    cells = []
    for stage in Stage:
        here = [part["term"] for part in parts if part["stage"] == stage.name.lower()]
        body = "".join(f"<code>{term.replace('<', '&lt;')}</code>" for term in here)
        empty = "" if here else " empty"
        cells.append(f'<li class="stage{empty}"><b>{stage.name.lower()}</b>{body}</li>')
    return f'<ol class="stages">{"".join(cells)}</ol>'


def gradient_words(name: Name, drawn: bool) -> str:
    """The picture of the gradient, and what it leaves out."""
    if not drawn:
        return "Its surrogate looks at more than one token, so that the gradient is no function of the ratio alone."
    return (
        f"![gradient of {name.name} by ratio]({name.name}.svg)\n\n"
        "The gradient of a token's log-prob by its importance ratio, for a response of one token whose advantage is 1 "
        "and for one of -1; its probability was 0.3. Ratio, surrogate and bounds alone: masks, weights and penalties, "
        "which look at other things, are left out."
    )


def docstring(text: str) -> str:
    """A docstring as Markdown: indented blocks stay as they are, and each item stands for itself."""
    pieces = []
    for is_block, lines in itertools.groupby(text.splitlines(), lambda line: line.startswith(" ") or not line):
        body = "\n".join(lines).strip("\n")
        if not body:
            continue
        pieces.append(f"```text\n{body}\n```" if is_block else items(body))
    return "\n\n".join(pieces)


def items(text: str) -> str:
    """Running text, with a paragraph for each item that starts a line."""
    lines = [f"\n{line}" if line.startswith(("Open", "Deviations", "Variant")) else line for line in text.split("\n")]
    return escaped("\n".join(lines).strip())


def escaped(text: str) -> str:
    """Text whose signs mean nothing to Markdown, but for backticks."""
    pieces = text.split("`")
    signs = str.maketrans({sign: f"\\{sign}" for sign in "*_<>[]|{}$~#"})
    return "`".join(piece if i % 2 else piece.translate(signs) for i, piece in enumerate(pieces))


def parameter_table(parts: Sequence[dict[str, Any]]) -> str:
    """Every parameter with its default, what it may be, and its meaning."""
    rows = [(part["term"].partition("(")[0], it) for part in parts for it in part["parameters"]]
    if not rows:
        return "It has none."
    lines = ["| parameter | part | value here | default | allowed | meaning |", "|---|---|---|---|---|---|"]
    lines += [
        f"| `{it['name']}` | `{part}` | {shown(it['value'])} | {shown(it['default'])} | {escaped(it['allowed'])} "
        f"| {escaped(it['meaning'])} |"
        for part, it in rows
    ]
    return "\n".join(lines)


def shown(value: object) -> str:
    """As an expression has it."""
    if value == str(REQUIRED):
        return "to be given"
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


# ---- lists -----------------------------------------------------------------------------------------------------------


def list_page(recipes: Sequence[Name]) -> str:
    """What hangs below the list of methods."""
    tree = ["```{toctree}", ":maxdepth: 1", "", "parts", "provenance", *(name.name for name in recipes), "```"]
    return "\n\n".join(
        ["# A page for each method", "[The list](../../methods.md) has them by chapter.", "\n".join(tree)]
    )


def provenance_page() -> str:
    """What each variant of each method was held against, and the methods that are not here."""
    pieces = [
        "# Provenance",
        f"What each variant was held against: somebody else's function, run or read, or an equation. {HOW}",
        provenance_table(PROVENANCE, with_recipe=True),
        "## Not here",
        "\n".join(f"- `{name}`: {escaped(reason)}." for name, reason in MISSING.items()),
    ]
    return "\n\n".join(pieces) + "\n"


def provenance_table(rows: Sequence[Provenance], with_recipe: bool) -> str:
    """A line for each variant that was held against something."""
    if not rows:
        return "Nothing but its equation."
    lines = ["| variant | held against | source | difference | settings | open |", "|---|---|---|---|---|---|"]
    for row in rows:
        name = f"[{row.recipe}]({row.recipe}.md) {row.variant}" if with_recipe else row.variant
        cells = (name, row.against, escaped(row.source), row.difference, escaped(row.settings), escaped(row.open))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def parts_page(parts: Sequence[Name]) -> str:
    """Every part with its stage, its summary and its parameters."""
    pieces = [
        "# Parts",
        "A part does one thing at one of the ten stages. Each can be added to any method, and taken out.",
    ]
    ours = [part for part in parts if part.name in PARTS]
    for stage, members in itertools.groupby(ours, lambda part: part.stage):
        pieces.append(f"## Stage: {stage}")
        for name in members:
            part = PARTS[name.name]()
            pieces += [f"### {name.name}", f"{escaped(name.summary)} {paper_link(name.paper)}."]
            pieces.append(parameter_table([{"term": name.name, "parameters": part.parameters()}]))
    return "\n\n".join(pieces) + "\n"
