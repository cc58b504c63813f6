"""The names of the zoo, read from its files: importing it imports torch, for which a wrong name should not wait."""

import re
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from rlzoo.errors import UserError, nearest

_NAMED = re.compile(r"""^    name = "(\w+)"|^recipe\(\s*"(\w+)"|\baliases=\(([^)]*)\)""", re.MULTILINE)


def zoo_names() -> list[str]:
    """Our own recipes and parts, and other names of theirs."""
    package = find_spec("objectives")
    folders = [Path(it) for it in (package.submodule_search_locations or ())] if package else []
    files = [path for it in folders for kind in ("methods", "parts") for path in sorted((it / kind).glob("[!_]*.py"))]
    found = [it for file in files for match in _NAMED.findall(file.read_text(encoding="utf-8")) for it in match]
    return sorted({name for it in found for name in re.findall(r"\w+", it)})


def check_names(expression: str) -> None:
    """Refuses a name that is like one of the zoo and none. What this lets through, `objectives.parse` may refuse still.

    Raises UserError.
    """
    if ":" in expression or "objectives" in sys.modules:  # other modules may register, or have registered, any name
        return
    known = {*zoo_names(), *entry_points(group="objectives").names}
    for name in re.findall(r"[A-Za-z_]\w*", re.sub(r"\([^)]*\)?", "", expression)):
        meant = nearest(name.lower(), known, most=1)
        if name not in known and meant:
            own = f"(one of your own is written with its module, my_module:{name})"
            raise UserError(f"unknown objective {name!r}{meant} {own}")
