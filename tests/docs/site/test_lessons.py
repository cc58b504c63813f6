"""The lessons run as they are handed out, and the answers that are kept with their exercises are right."""

import copy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.site.conftest import ROOT

LESSONS = sorted((ROOT / "docs" / "lessons").glob("*.ipynb"))
MINUTES = 10


def solved(lesson: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The lesson with the answers in place of the dots."""
    lesson = copy.deepcopy(lesson)
    for cell in lesson.cells:
        if "solution" in cell.metadata:
            cell.source = cell.source.replace("answer = ...", f"answer = {cell.metadata.solution}", 1)
    return lesson


def said(lesson: nbformat.NotebookNode) -> str:
    """All that it printed."""
    outputs = [it for cell in lesson.cells for it in cell.get("outputs", ())]
    return "".join(it.get("text", "") for it in outputs)


@pytest.mark.timeout(60 * MINUTES)
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_teaches_what_it_says(path: Path) -> None:
    lesson = nbformat.read(path, as_version=4)
    exercises = [cell for cell in lesson.cells if "check(" in cell.source and "answer = ..." in cell.source]
    assert len(exercises) >= 3
    assert all("solution" in cell.metadata for cell in exercises)
    assert any("assert" in cell.source for cell in lesson.cells)
    answers = solved(lesson)
    NotebookClient(answers, timeout=60 * MINUTES, resources={"metadata": {"path": str(path.parent)}}).execute()
    assert said(answers).count(": right\n") == len(exercises)
    assert "not yet" not in said(answers)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_is_handed_out_unanswered_with_its_outputs(path: Path) -> None:
    lesson = nbformat.read(path, as_version=4)
    assert said(lesson).count("put your answer in place of the dots") == sum(
        "solution" in it.metadata for it in lesson.cells
    )
