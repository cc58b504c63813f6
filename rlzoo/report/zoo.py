"""The zoo as a table, one objective explained, two compared, and settings of other libraries translated."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import yaml
from rich.console import Console
from rich.padding import Padding

from objectives import FAILURE_MODES, FIELDS, Name, Objective, Stage, names, read_terms
from objectives.peers.translate import Translation
from rlzoo.errors import UserError, nearest
from rlzoo.report.provenance import HOW, Provenance
from rlzoo.report.table import Cell, Column, Shown, Table, plain_console

WHOLE = ("recipe", "part", "stage", "paper", "parameter")
"""Columns of names, which are not broken."""
ITEMS = ("Open", "Deviations", "Variant")
"""Words that start a line of their own in a method's docstring."""


def costs(objective: Objective) -> list[str]:
    """What it takes beyond one forward and backward over the rollouts."""
    lines = [f"{objective.pass_count} update pass{'es' * (objective.pass_count > 1)} over the rollouts of a step"]
    lines += [field.cost for name, field in FIELDS.items() if field.cost and name in objective.needs]
    if objective.reads_current:
        lines.append("a forward without gradient before each update once the policy has moved, for current statistics")
    if objective.refills:
        lines.append("further rollouts in place of the groups that are dropped")
    if objective.needs_entropy_gradient:
        lines.append("the gradient of the full-vocabulary entropy")
    return lines


def found(names: Sequence[Name], word: str) -> list[Name]:
    """Those that mention a word: in what they are called, what they do, where they come from or what they say.

    The failure modes that they address count as well. Raises UserError if none does.
    """
    texts = {
        name: (name.name, *name.aliases, name.stage, name.paper, name.summary, *name.variants, name.doc)
        for name in names
    }
    mentioned = [name for name in names if word.lower() in " ".join((*texts[name], *_addressed(name))).lower()]
    if not mentioned:
        raise UserError(
            f"--search {word}: nothing in the zoo mentions it{nearest(word, [name.name for name in names])}"
        )
    return mentioned


def _addressed(name: Name) -> Iterator[str]:
    for tag in name.failure_modes:
        yield from (tag, tag.replace("_", " "), FAILURE_MODES[tag])


def print_zoo(names: Sequence[Name], whole: bool = False, console: Console | None = None) -> None:
    """Prints recipes by stage, a few lines each. Parts are listed by name alone, or like recipes if `whole`.

    Variants are shown on the page of their recipe.
    """
    console = console or plain_console()
    stages = [*(stage.name.lower() for stage in Stage), "several"]
    for kind in ("recipe", "part"):
        rows = sorted((name for name in names if name.kind == kind), key=lambda name: stages.index(name.stage))
        if kind == "part" and not whole:
            groups = [(stage, [name.name for name in group]) for stage, group in groupby(rows, lambda name: name.stage)]
            brief: list[list[Shown]] = [[stage, ", ".join(group)] for stage, group in groups]
            console.print(Table(_texts("stage", "parts"), brief))
            continue
        lines: list[list[Shown]] = []
        for stage, group in groupby(rows, key=lambda name: name.stage):
            lines.append([Cell(f"[{stage}]" if stage != "several" else "[several stages]", kind="strong"), "", ""])
            for name in group:
                aliases = f" (also {', '.join(name.aliases)})" if name.aliases else ""
                lines.append([name.name, name.summary + aliases, name.paper.removeprefix("arXiv:")])
        if rows:
            columns = [*_texts(kind, "what it does"), Column("paper", is_text=True, width=10)]
            console.print(Table(columns, lines))
    if not whole:
        console.print("rlzoo objectives --all says what each part does, --search WORD what mentions a word")
    console.print("papers are arXiv numbers; rlzoo objectives 'stapo(tau_p=0.005)+clip_higher' explains an expression")


def print_objective(written: str, objective: Objective, console: Console | None = None) -> None:
    """Stages, formulas, papers, what the trainer calculates, and the recipe's own words."""
    console = console or plain_console()
    console.print(f"{written}  =  {objective}" if written != str(objective) else written, style="bold", soft_wrap=True)
    for line in objective.notices:
        console.print(line, soft_wrap=True)
    parts = objective.describe()["parts"]
    rows = [[row["stage"], row["term"], row["formula"], row["paper"].removeprefix("arXiv:")] for row in parts]
    console.print(Table(_texts("stage", "term", "formula", "paper"), rows))
    for line in objective.equation.split("; "):
        console.print(line)
    _print_parameters(written, objective, console)
    for line in costs(objective):
        console.print(f"- {line}")
    recipes = {name: entry for entry in names() if entry.variants for name in (entry.name, *entry.aliases)}
    for entry in (recipes[term.name] for term in read_terms(written) if term.name in recipes):
        console.print()
        for variant, expression in zip(entry.variants, entry.expressions, strict=True):
            if expression:
                console.print(f"{entry.name}(variant={variant}) is {' +'.join(expression.split('+'))}")
        console.print()
        for line in paragraphs(entry.doc):
            console.print(line)


def print_provenance(rows: Sequence[Provenance], missing: Mapping[str, str], console: Console | None = None) -> None:
    """What each variant was held against, and what is not in the zoo."""
    console = console or plain_console()
    console.print(HOW)
    for row in rows:
        console.print(f"{row.recipe}({row.variant}): {row.against}; {row.difference}", style="bold")
        console.print(Padding(row.source, (0, 0, 0, 4)))
        for name, text in (("settings", row.settings), ("open", row.open)):
            if text:
                console.print(Padding(f"{name}: {text}", (0, 0, 0, 4)))
    for name, reason in missing.items():
        console.print(f"not here: {name}: {reason}", soft_wrap=True)


def _print_parameters(written: str, objective: Objective, console: Console) -> None:
    """Those of the parts that were written, or of all if a recipe was."""
    named = {term.name for term in read_terms(written)}
    written_parts = [part for part in objective.parts if part.qualified_name in named]
    shown = written_parts if len(written_parts) == len(named) else objective.parts
    rows: list[list[Shown]] = []
    for part in shown:
        for parameter in part.parameters():
            here = ("" if len(shown) == 1 else f"{part.name} ") + f"{parameter['name']}={_value(parameter['value'])}"
            rows.append([here, _value(parameter["default"]), parameter["allowed"], parameter["meaning"]])
    console.print(Table(_texts("parameter", "default", "allowed", "meaning"), rows) if rows else "")


def _texts(*headings: str) -> list[Column]:
    return [Column(heading, is_text=True, is_whole=heading in WHOLE) for heading in headings]


def _value(value: object) -> str:
    """As an expression has it."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def difference(first: Objective, second: Objective) -> list[dict[str, str]]:
    """The parts in which two objectives differ, in stage order, with the formula in each ("" where it has none)."""
    ours, theirs = ({part.name: part for part in objective.parts} for objective in (first, second))
    both = sorted({*first.parts, *second.parts}, key=lambda part: (part.stage, not part.exclusive, part.name))
    return [
        {
            "stage": part.stage.name.lower(),
            "part": part.name,
            "first": ours[part.name].formula() if part.name in ours else "",
            "second": theirs[part.name].formula() if part.name in theirs else "",
        }
        for part in dict((part.name, part) for part in both).values()
        if ours.get(part.name) != theirs.get(part.name)
    ]


def print_difference(first: Objective, second: Objective, console: Console | None = None) -> None:
    """What one objective has and the other has not, and what each costs beyond the other."""
    console = console or plain_console()
    rows = difference(first, second)
    if not rows:
        console.print(f"the same objective: {first}", soft_wrap=True)
        return
    cells = [[row["stage"], row["part"], row["first"] or "-", row["second"] or "-"] for row in rows]
    console.print(Table(_texts("stage", "part", str(first), str(second)), cells))
    shared = set(costs(first)) & set(costs(second))
    for objective in (first, second):
        for line in costs(objective):
            if line not in shared:
                console.print(f"- {objective}: {line}")


def paragraphs(doc: str) -> list[str]:
    """The lines of a docstring, those of running text joined so that they can be wrapped to any width."""
    lines: list[str] = []
    for line in doc.splitlines():
        starts = not line.strip() or line.startswith(" ") or line.split(" ")[0].rstrip(":") in ITEMS
        if starts or not lines or not lines[-1].strip() or lines[-1].startswith(" "):
            lines.append(line)
        else:
            lines[-1] += " " + line
    return lines


# ---- translations of settings ----------------------------------------------------------------------------------------


def print_translation(translation: Translation, settings: bool, console: Console | None = None) -> None:
    """The expression, or the `settings` as YAML, and every difference; the first lines can be pasted as they are."""
    console = console or plain_console()
    shown = yaml.safe_dump(translation.settings, sort_keys=False).rstrip() if settings else translation.expression
    console.print(shown, soft_wrap=True, style=None if settings else "bold")
    where = f"{translation.peer} {translation.version}"
    if translation.differences:
        console.print(f"# what {where} does otherwise:", soft_wrap=True)
    else:
        console.print(f"# the same as in {where}, as far as its settings say", soft_wrap=True)
    for difference in translation.differences:
        console.print(f"# - {difference}", soft_wrap=True)
    if translation.elsewhere:
        console.print(f"# of the run, not of the objective: {', '.join(translation.elsewhere)}", soft_wrap=True)
