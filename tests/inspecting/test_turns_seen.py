"""The microscope on rows of several turns: who wrote what, which turn it was, and its gradient."""

import json
import re

import pytest
import torch

from objectives import Writer
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.report.microscope_page import microscope_page
from tests.inspecting.microscopes import make_run, make_scope

TRAINED = "grpo-kl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with a calculator."""
    words = ("task.name=calculator", f"objective={TRAINED}", "rollout.max_response_tokens=48", "train.steps=1")
    return make_run(tmp_path_factory.mktemp("runs") / "run", "rollout.prompts_per_step=16", *words)


def behind(page: str) -> list[dict[str, list[float]]]:
    """What the page's panel knows of each response."""
    found = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page)[0]
    return list(json.loads(found)["responses"])


@pytest.mark.slow
def test_what_the_environment_wrote_has_no_gradient(folder: RunFolder) -> None:
    scope = make_scope(folder, "step=0", "against=dapo-soft_overlong", "groups=16")
    heard = scope.batch.require("writer", "test") == Writer.ENVIRONMENT
    assert heard.any()
    for view in scope.views:
        assert (view.gradient[heard] == 0).all() and (view.logit_gradient[heard] == 0).all()
        assert (view.advantage[heard] == 0).all() and not view.tokens[heard].any()
    page = microscope_page(scope)
    assert "They have no gradient." in page
    for response in behind(page):
        for t in response["heard"]:
            assert response["p"][int(t)] is None and response["turn"][int(t)] == 0


@pytest.mark.slow
def test_what_an_objective_learns_of_the_environment_is_shown_with_its_probability(folder: RunFolder) -> None:
    scope = make_scope(folder, "step=0", "objective=echo-kl", "groups=16")
    heard, (view,) = scope.heard, scope.views
    assert heard.any() and (view.gradient[heard] > 0).all()
    logp = scope.batch.require("logp", "test")
    assert (logp[heard] < 0).all(), "they are calculated"
    torch.testing.assert_close(view.logit_gradient[heard], view.gradient[heard] * (1 - logp[heard].exp()))
    page = microscope_page(scope)
    assert "cross entropy" in page and "They have no gradient." not in page.partition("<script")[0]
    assert all(response["p"][int(t)] is not None for response in behind(page) for t in response["heard"])
    (beside,) = make_scope(folder, "step=0", "groups=16").views
    kept = scope.batch.mask
    torch.testing.assert_close(view.gradient[kept], beside.gradient[kept], rtol=1e-4, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("words", [("objective=gigpo",), ("against=gigpo",)])
def test_an_objective_that_reads_turns_sees_those_of_a_run_that_did_not(
    words: tuple[str, ...], folder: RunFolder
) -> None:
    scope = make_scope(folder, "step=0", *words)
    assert "turn_advantage" in str(scope.views[-1].objective.describe())


def test_a_page_numbers_the_turns_and_says_where_each_begins_and_what_it_earned(folder: RunFolder) -> None:
    page = microscope_page(make_scope(folder, "step=0", "groups=16"))
    several = [response for response in behind(page) if response["turns"] > 1]  # type: ignore[operator]
    assert several
    for response in several:
        turns, heard = response["turn"], set(response["heard"])
        assert [t for t, turn in enumerate(turns) if turn == 0] == sorted(heard)
        own = [turn for turn in turns if turn]
        assert own == sorted(own) and set(own) == set(range(1, int(own[-1]) + 1))
        assert len(response["earned"]) == len(response["state"]) == len(turns)
    borders = re.findall(r'data-turn="(\d+)"', page)
    assert len(borders) >= sum(int(response["turns"]) for response in several)  # type: ignore[call-overload]
