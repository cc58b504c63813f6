"""The dictionary of TRL's and verl's settings, from the tables that `rlzoo objectives --from` and `--to` read."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from links import write_changed
from method_pages import escaped

from objectives.peers import PEERS
from objectives.peers.table import Bounded, PeerTable, Shifted
from rlzoo.config.reading import MEANT


def write(folder: Path) -> None:
    """Writes the page."""
    write_changed(folder / "peers.md", "\n\n".join(pieces()) + "\n")


def pieces() -> Iterator[str]:
    """The page: keys of a run first, then the settings of the objective in each library."""
    yield "# From TRL and verl"
    yield (
        "`rlzoo objectives --from verl run.sh` and `--from trl config.yaml` translate a whole file; `--to` writes the "
        "settings for an expression. In the tables capitals stand for a number, the same on both sides."
    )
    yield "## Keys of a run"
    rows = [f"| `{theirs}` | `{ours}` |" for theirs, ours in MEANT.items()]
    yield "\n".join(["| there | here |", "|---|---|", *rows])
    for table in PEERS.values():
        yield f"## The objective in {table.name} {table.version}"
        yield "\n".join(["| setting | here | what differs |", "|---|---|---|", *rule_rows(table)])


def rule_rows(table: PeerTable) -> Iterator[str]:
    """A row for each rule."""
    for rules in table.stages.values():
        for rule in rules:
            settings = "<br>".join(f"`{name}={value_in_words(value)}`" for name, value in rule.settings.items())
            ours = "not available" if rule.terms is None else f"`{rule.terms}`" if rule.terms else "nothing to add"
            yield f"| {settings.replace('|', chr(92) + '|')} | {ours} | {escaped(rule.difference)} |"


def value_in_words(value: Any) -> str:
    """The value of a setting, as a configuration file has it."""
    match value:
        case Shifted(name, by):
            return f"{name}{by:+g}" if by else name
        case Bounded(low, high):
            return f"{low}_{high}"
        case tuple():
            return " or ".join(map(value_in_words, value))
        case bool() | None:
            return str(value).lower().replace("none", "null")
        case Mapping():
            return "..."
    return str(value)
