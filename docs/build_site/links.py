"""Links of the repository's own pages, which GitHub follows as they are, on the site."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MIRRORED = {
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "objectives/README.md": "library",
    "objectives/adapters/README.md": "adapters",
    "benchmarks/README.md": "benchmarks/index",
    **{
        str(path.relative_to(ROOT)): "/".join(
            ["benchmarks", *path.relative_to(ROOT / "benchmarks").with_suffix("").parts]
        )
        for path in sorted((ROOT / "benchmarks").glob("*/**/*.md"))
    },
}
"""Pages of the repository -> their names among the generated pages."""
PICTURES = (".png", ".svg")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def rewritten(text: str, page: Path, site: Path) -> str:
    """The text of a page of the repository, its relative links leading to pages of the site.

    A file that the site does not show is named instead. `page` is where the text lies or, for a mirrored page, lay.
    """

    def one(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        file, _, anchor = target.partition("#")
        if "://" in target or not file:
            return match.group(0)
        found = (page.parent / file).resolve()
        if not found.exists():
            raise FileNotFoundError(f"{page}: {target}")
        if picture:
            return f"![{label}]({os.path.relpath(found, page.parent)})"
        if found.is_relative_to(site) and found.suffix in (".md", ".ipynb"):
            return match.group(0)
        return _leading(found, label, anchor, page, site)

    return LINK.sub(one, text)


def _leading(found: Path, label: str, anchor: str, page: Path, site: Path) -> str:
    name = str((found / "README.md" if found.is_dir() else found).relative_to(ROOT))
    if name == "README.md":
        return f"[{label}]({os.path.relpath(site / 'index.md', page.parent)})"
    if name not in MIRRORED:
        path = str(found.relative_to(ROOT))
        return f"{label}" if path in label or "`" in label else f"{label} (`{path}`)"
    target = os.path.relpath(site / "generated" / f"{MIRRORED[name]}.md", page.parent)
    return f"[{label}]({target}{'#' + anchor if anchor else ''})"


def mirror(name: str, site: Path) -> None:
    """Writes a page of the repository among the generated ones."""
    source, target = ROOT / name, site / "generated" / f"{MIRRORED[name]}.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    text = source.read_text(encoding="utf-8")
    text = text if text.startswith("# ") else f"# {source.stem.capitalize()}\n\n{text}"
    moved = LINK.sub(lambda it: _moved(it, source, target), text)
    write_changed(target, rewritten(moved, target, site) + _tree(name))


def _tree(name: str) -> str:
    """What hangs below a mirrored page: of the list of measurements each of them, and of these their tables."""
    parent = MIRRORED[name].removesuffix("/index").removesuffix("/README")
    below = [
        os.path.relpath(it, os.path.dirname(MIRRORED[name]))
        for it in MIRRORED.values()
        if it != MIRRORED[name] and it.startswith(f"{parent}/")
        if it.endswith("/README") == name.startswith("benchmarks/README")
    ]
    return "\n".join(["", "```{toctree}", ":hidden:", "", *below, "```", ""]) if below else ""


def _moved(match: re.Match[str], source: Path, target: Path) -> str:
    """The same link from where the mirrored page lies."""
    picture, label, link = match.groups()
    file, hash_, anchor = link.partition("#")
    if "://" in link or not file:
        return match.group(0)
    return f"{picture}[{label}]({os.path.relpath(source.parent / file, target.parent)}{hash_}{anchor})"


def write_changed(path: Path, text: str) -> None:
    """Writes a file unless it says so already, so that Sphinx reads again only what is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
