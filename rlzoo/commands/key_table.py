"""The table of keys at the end of a command's help."""

import textwrap
from collections.abc import Iterable
from typing import Any


def key_table(keys: Iterable[tuple[str, Any, str]], note: str = "") -> str:
    """Names, defaults and meanings of keys, as `rlzoo.config.keys` gives them; `note` goes into the heading."""
    lines = [f"keys, with their defaults{note}:"]
    for name, default, meaning in keys:
        lines.append(f"  {name}={'' if default is None else default}")
        lines += textwrap.wrap(meaning, width=78, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)
