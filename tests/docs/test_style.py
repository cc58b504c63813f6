"""The documentation uses the words of docs/style.md."""

import ast
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STYLE = ROOT / "docs" / "style.md"
SAYS_SOMETHING_ELSE = re.compile(r"```.*?```|`[^`\n]*`|^ {4}[^\n]*$|\]\([^)]*\)|https?://\S+", re.MULTILINE | re.DOTALL)
"""Code, links and commands, in which a word is a name."""


def glossary() -> list[list[str]]:
    """[word, meaning, instead of] of each entry."""
    text = STYLE.read_text(encoding="utf-8").split("## Glossary")[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return rows[2:]


def phrases() -> list[str]:
    """What neither a page nor a docstring nor a comment uses."""
    last = STYLE.read_text(encoding="utf-8").rsplit("No page uses these: ", 1)[1]
    return last.strip().rstrip(".").split(", ")


def avoided() -> list[str]:
    """Words and phrases that no page uses."""
    instead = [word for row in glossary() for word in row[2].split(", ") if word]
    return [*phrases(), *(word for word in instead if word not in ("fresh", "look"))]


def tracked(*patterns: str) -> list[str]:
    command = ["git", "ls-files", *patterns]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def pages() -> list[str]:
    """Every page that a person wrote."""
    without = ("CHANGELOG.md", "docs/style.md")
    return [name for name in tracked("*.md") if "/results/" not in name and name not in without]


def sentences(path: Path) -> list[str]:
    """Docstrings of a Python file, those behind names included, and its comments as one text."""
    statements = [node.value for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Expr)]
    strings = [node.value for node in statements if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    with tokenize.open(path) as file:
        comments = [
            token.string[1:] for token in tokenize.generate_tokens(file.readline) if token.type == tokenize.COMMENT
        ]
    return [" ".join(text.split()) for text in (*strings, "\n".join(comments))]


def test_the_glossary_has_sixty_words_in_order() -> None:
    words = [row[0] for row in glossary()]
    assert len(set(words)) == len(words) >= 60
    assert all(len(row) == 3 and row[1] for row in glossary())


@pytest.mark.parametrize("word", avoided())
def test_no_page_has_an_avoided_word(word: str) -> None:
    pattern = re.compile(rf"\b{word}(s|es|ed)?\b", re.IGNORECASE)
    found = [
        f"{name}: {' '.join(text[max(0, hit.start() - 40) : hit.end() + 40].split())}"
        for name in pages()
        for text in [SAYS_SOMETHING_ELSE.sub(" ", (ROOT / name).read_text(encoding="utf-8"))]
        for hit in pattern.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_no_docstring_or_comment_has_an_avoided_phrase() -> None:
    pattern = re.compile(rf".{{0,40}}\b({'|'.join(phrases())})\b.{{0,40}}", re.IGNORECASE)
    files = tracked("rlzoo/*.py", "objectives/*.py")
    found = [f"{name}: {hit[0]}" for name in files for text in sentences(ROOT / name) for hit in pattern.finditer(text)]
    assert len(files) > 200 and not found, "\n".join(found)
