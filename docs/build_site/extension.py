"""What the site needs of Sphinx: pages made from the code, links into the repository, and mathematics as MathML."""

from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from links import rewritten
from pages import write_pages
from sphinx.application import Sphinx

GENERATED = "generated"
ROOT = Path(__file__).parents[2]


def inline(self: object, node: nodes.Element) -> None:
    """A formula in a line, which browsers show without a script."""
    self.body.append(convert(node.astext()))  # type: ignore[attr-defined]
    raise nodes.SkipNode


def block(self: object, node: nodes.Element) -> None:
    """A formula by itself, which scrolls where it is too wide."""
    self.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')  # type: ignore[attr-defined]
    raise nodes.SkipNode


def write(app: Sphinx) -> None:
    """Writes the generated pages before Sphinx looks for pages."""
    write_pages(Path(app.srcdir) / GENERATED)


def rewrite(app: Sphinx, page: str, source: list[str]) -> None:
    """Leads links into the repository to the page that shows it."""
    if not page.startswith(f"{GENERATED}/") and not page.startswith("lessons/"):
        source[0] = rewritten(source[0], Path(app.srcdir) / f"{page}.md", Path(app.srcdir))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("builder-inited", write)
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
