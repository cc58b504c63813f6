"""What the site needs of Sphinx: pages made from the code, links into the repository, and docstrings as plain text."""

import re
from pathlib import Path

import evidence_pages
import key_pages
import method_pages
import peer_pages
from links import MIRRORED, mirror, rewritten, write_changed
from sphinx.application import Sphinx

GENERATED = "generated"
PACKAGE = """# {0} from Python

```{{eval-rst}}
.. automodule:: {0}
   :members:
   :member-order: bysource
```
"""
SIGNS = re.compile(r"([*|_\\])")


def write(app: Sphinx) -> None:
    """Writes the generated pages before Sphinx looks for pages."""
    folder = Path(app.srcdir) / GENERATED
    for name in MIRRORED:
        mirror(name, folder.parent)
    method_pages.write(folder / "methods")
    key_pages.write(folder)
    evidence_pages.write(folder)
    peer_pages.write(folder)
    for name in ("objectives", "rlzoo"):
        write_changed(folder / f"interface_{name}.md", PACKAGE.format(name))


def rewrite(app: Sphinx, page: str, source: list[str]) -> None:
    """Leads links into the repository to the page that shows it."""
    if not page.startswith(f"{GENERATED}/") and not page.startswith("lessons/"):
        source[0] = rewritten(source[0], Path(app.srcdir) / f"{page}.md", Path(app.srcdir))


def as_plain_text(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Escapes what means something to Sphinx; text between backticks is code, an indented line stays a line."""
    pieces = "\n".join(lines).split("`")
    text = "``".join(piece if place % 2 else SIGNS.sub(r"\\\1", piece) for place, piece in enumerate(pieces))
    lines[:] = re.sub(r"(?m)^ {4,}(?=\S)", "| ", text).split("\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    app.connect("source-read", rewrite)
    app.connect("autodoc-process-docstring", as_plain_text)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
