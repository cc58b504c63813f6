"""Prints what `make test-oldest` installs: of everything that is required, the oldest version that may be.

`python locks/oldest.py EXTRA,EXTRA` reads the lower bounds of rlzoo-llm, with these extras, and of rlzoo-objectives.
pip itself resolves to the newest versions alone; with these lines as its constraints it takes the bounds, and what they
bring in turn as new as they let it be.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BOUND = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\w.]+)")


def declared(extras: Sequence[str]) -> dict[str, str]:
    """Distribution -> the version that its requirement begins with; one without a lower bound is left out."""
    texts = [*_required(ROOT / "objectives", []), *_required(ROOT, extras)]
    bounds = filter(None, map(_BOUND.match, texts))
    return {bound[1]: bound[2] for bound in bounds}


def _required(folder: Path, extras: Sequence[str]) -> list[str]:
    """What the distribution made in a folder requires, with these extras."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for name, version in declared(sys.argv[1].split(",")).items()))
