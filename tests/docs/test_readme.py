"""The README leads: it is short, and every page of docs/ is reached; one of them names every method with its paper."""

import csv
import json
import re
import runpy
from collections import Counter
from pathlib import Path

from objectives import names
from rlzoo.lab.claims import Verdict

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


METHODS = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


def test_the_readme_has_at_most_600_words() -> None:
    assert len(README.split()) <= 600


def test_the_readme_counts_the_zoo_right() -> None:
    recipes = [name for name in names() if name.kind == "recipe" and ":" not in name.name]
    parts = [name for name in names() if name.kind == "part" and ":" not in name.name]
    assert f"{len(recipes)} published objectives" in README
    assert f"with {len(parts)} parts" in README
    assert f"and {len(recipes) - 8} more" in (ROOT / "docs" / "expressions.md").read_text(encoding="utf-8")


def test_the_readme_counts_the_claims_as_their_table_does() -> None:
    rows = list(csv.DictReader((ROOT / "benchmarks" / "claims.csv").open(encoding="utf-8")))
    counts = Counter(row["verdict"] for row in rows)
    said = ", ".join(f"{counts[verdict.value]} {verdict.value}" for verdict in Verdict)
    assert f"{len(rows)} claims, {said}" in " ".join(README.split())


def test_the_page_of_the_suite_counts_its_claims_as_its_results_do() -> None:
    folder = ROOT / "benchmarks" / "suite"
    claims = json.loads((folder / "results" / "claims.json").read_text(encoding="utf-8"))["claims"]
    counts = Counter(claim["verdict"] for claim in claims)
    page = " ".join((folder / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"Of {len(claims)} claims {counts['holds']} hold here, {counts['does not hold']} do not hold, "
        f"{counts['cannot tell']} cannot be told and {counts['void']} are void" in page
    )


def test_a_page_names_every_method_with_its_paper() -> None:
    linked = dict(re.findall(r"\[`(\w+)`\]\(https://(?:arxiv\.org/abs|doi\.org)/([^)]+)\)", METHODS))
    for name in names():
        number = re.sub(r"^(arXiv|doi):", "", name.paper)
        if name.kind == "recipe" and number != name.paper:
            assert linked.pop(name.name) == number
        elif name.kind == "recipe" and ":" not in name.name:
            assert f"`{name.name}` ({name.paper})" in METHODS
    assert linked == {}


def test_the_page_of_methods_is_what_they_declare() -> None:
    assert runpy.run_path(str(ROOT / "docs" / "list_methods.py"))["page"]() == METHODS


def test_every_example_of_an_expression_differs_from_its_base() -> None:
    from objectives import parse

    examples = re.findall(r"^    rlzoo objectives '?([^\s']+)", README, re.MULTILINE)
    assert len(examples) == 5
    for expression in examples:
        assert parse(expression) != parse(re.split(r"[-+(]", expression)[0]), expression


def test_no_objective_is_better_on_every_leaderboard() -> None:
    better = []
    for path in (ROOT / "benchmarks").glob("*/results/leaderboard.csv"):
        rows = list(csv.DictReader(path.open(encoding="utf-8", newline="")))
        better.append({row["objective"] for row in rows if row["verdict"].startswith("better")})
    assert (
        len(better) > 2
        and not set.intersection(*better)
        and "No objective is called better on every leaderboard." in README
    )


def test_every_page_of_docs_is_reached_from_its_index() -> None:
    docs = ROOT / "docs"
    reached, open_pages = set(), {docs / "index.md"}
    while open_pages:
        page = open_pages.pop()
        reached.add(page)
        for target in re.findall(r"\]\(([^()\s#]+\.(?:md|ipynb))", page.read_text(encoding="utf-8")):
            found = (page.parent / target).resolve()
            if found.exists() and docs in found.parents and found not in reached:
                open_pages.add(found)
    written = {it for it in (*docs.rglob("*.md"), *docs.rglob("*.ipynb")) if "_build" not in it.parts}
    written = {it for it in written if "generated" not in it.parts}
    assert written <= reached


def test_a_lesson_shows_nothing_of_where_it_was_run() -> None:
    for lesson in (ROOT / "docs" / "lessons").glob("*.ipynb"):
        cells = json.loads(lesson.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        assert outputs and all(output.get("name") != "stderr" for output in outputs), lesson.name
        shown = json.dumps([{**output, "data": output.get("data", {}).get("text/plain")} for output in outputs])
        assert not re.search(r"(?<![\w.:/])/(?:home|root|tmp|work|Users|usr)/", shown), lesson.name
