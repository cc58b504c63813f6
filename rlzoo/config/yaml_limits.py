"""What of YAML is read: the library that builds it follows any nesting, until its stack is full, and every alias."""

import yaml

from rlzoo.errors import UserError

DEEPEST = 100
"""Levels of nesting."""
MOST = 100_000
"""Values, those that aliases repeat counted each time."""


def check_yaml(text: str, source: str) -> None:
    """Raises UserError, naming the source, for what is nested too deep or says too much; YAMLError for no YAML."""
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, total))
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes |= {anchor: total - before} if anchor else {}
        if isinstance(event, yaml.NodeEvent):
            total += sizes.get(event.anchor or "", 1) if isinstance(event, yaml.AliasEvent) else 1
        if len(opened) > DEEPEST:
            raise UserError(f"{source} is not readable: it is nested deeper than {DEEPEST} levels")
        if total > MOST:
            raise UserError(f"{source} is not readable: it says more than {MOST} values")
