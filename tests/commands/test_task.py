"""`rlzoo task` shows what an hour would be spent on: what is read, how it is graded, whether it can be learnt."""

import json
from pathlib import Path

import pytest

from rlzoo.commands import main
from tests.conftest import error_of, save_tiny_model
from tests.model.families import FAMILIES, backend_of

TEMPLATE = "{% for m in messages %}={{ m['content'] }}-{% endfor %}{% if add_generation_prompt %}<pad>{% endif %}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def own_data(answer: str = "{a}") -> str:
    rows = [{"question": f"{a}+{b}=", "answer": answer.format(a=a + b)} for a in range(10, 18) for b in (7, 21, 33)]
    Path("own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "task.name=own.jsonl"


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["task", *words]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert not list(Path().glob("runs"))
    return out


def test_the_shipped_model_and_task_can_be_learnt(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys)
    assert "gold, as demonstrated 1 100%" in " ".join(out.split()) and "this can be learnt" in out
    assert out.count("reward") >= 5 and "0 of " in out and "groups of 8 responses" in out


@pytest.mark.slow
def test_a_grader_that_no_response_satisfies_is_known_before_an_hour_is_spent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = shown(capsys, own_data())
    assert r"gold, \boxed{...}" in out and "100%  \\boxed{" in out
    assert "this will hardly be learnt" in out and "no group has a signal" in out and "task.instruction" in out
    assert "an empty response earns" not in out


def test_a_reward_is_shown_at_work_and_one_that_likes_silence_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("reward.py").write_text(
        "def short(response):\n    return -len(response)\n\n"
        "def last(response, gold):\n    return response.split(')')[-1] == gold\n"
    )
    out = shown(capsys, own_data(), "task.reward=./reward.py:last")
    assert "gold, ... 1 100%" in " ".join(out.split()) and "this can be learnt" in out
    out = shown(capsys, own_data(), "task.reward=./reward.py:short")
    assert "an empty response earns as much as the gold answer" in out


def test_a_group_has_a_signal_where_the_objective_tells_its_rewards_apart(capsys: pytest.CaptureFixture[str]) -> None:
    Path("reward.py").write_text(
        "def last(response, gold):\n    return float(response.split(')')[-1] == gold)\n\n"
        "def other(response, gold):\n    return 2 - 2 * last(response, gold)\n"
    )
    words = ["task.reward=[./reward.py:last,./reward.py:other]", "task.reward_weights=[2, 1]"]
    assert "0 of 16 groups" in shown(capsys, own_data(), *words)
    out = shown(capsys, own_data(), *words, "objective=gdpo")
    assert "of 16 groups" in out and "0 of 16 groups" not in out


def test_what_becomes_of_rows_without_an_answer_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    Path("reward.py").write_text("def short(response):\n    return -len(response)\n")
    rows = [{"question": f"{n}+11=", "answer": str(n) if n in (16, 18, 20) else None} for n in range(10, 26)]
    Path("half.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = " ".join(shown(capsys, "task.name=half.jsonl", "task.reward=./reward.py:short").split())
    assert "no answer 11 problems to train on; task.reward gets gold='' for them" in out
    assert "gold: no answer; task.reward gets gold=''" in out and "gold none" not in out
    Path("bare.jsonl").write_text("".join(json.dumps({"question": row["question"]}) + "\n" for row in rows))
    out = shown(capsys, "task.name=bare.jsonl", "task.reward=./reward.py:short")
    assert "gold, " not in out and "another's gold" not in out and "as much as the gold" not in out


def test_long_prompts_that_training_drops_are_not_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert "all training prompts are longer" in error_of(
        capsys, "task", own_data(), "rollout.max_prompt_tokens=4", "rollout.drop_long_prompts=true"
    )


def test_the_first_prompt_is_shown_token_by_token_with_those_marked_that_are_special(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = save_tiny_model(tmp_path / "model")
    (model / "chat_template.jinja").write_text(TEMPLATE)
    out = " ".join(shown(capsys, own_data(), f"model.name={model}", "rollout.max_response_tokens=3").split())
    first = out.partition("tokens: ")[2].split()
    assert first[0] == "12'='" and "11'-' 13[<pad>] gold:" in out


def test_json_has_the_first_prompt_as_it_is_read_and_the_counts_and_loads_no_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model, backend = save_tiny_model(tmp_path / "model"), backend_of(FAMILIES["llama 2, ends"])
    backend.save_pretrained(model)
    (model / "model.safetensors").write_text("no weights")
    rows = [{"question": f"{a}+1?" if a % 5 else None, "answer": a + 1} for a in range(10, 30)]
    Path("own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["task", "--json", "task.name=own.jsonl", f"model.name={model}", "rollout.max_response_tokens=3"]) == 0
    said = json.loads(capsys.readouterr().out)
    (asked,) = said["prompt"]
    assert said["ids"] == backend.apply_chat_template([asked], add_generation_prompt=True)["input_ids"]
    assert said["special"] == [token == backend.bos_token_id for token in said["ids"]]
    assert "".join(said["tokens"]) == f"<s> [INST] {asked['content']} [/INST]"
    assert said["gold"] == str(int(asked["content"][:2]) + 1)
    assert (said["train"], said["held_out"], said["dropped"]) == (14, 2, 4)
    assert said["why_dropped"][:2] == ["row 1 has no question", "row 6 has no question"]


@pytest.mark.slow
def test_special_and_unknown_tokens_are_visible(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "model")
    (model / "chat_template.jinja").write_text(TEMPLATE)
    out = shown(capsys, own_data(), f"model.name={model}", "task.system_prompt=5", "rollout.max_response_tokens=3")
    assert "=5-=1" in out and "=-<pad>" in out
    assert "truncated" in out and "raise rollout.max_response_tokens=3" in " ".join(out.split())
    out = shown(capsys, "task.name=knights", "model.name=embedded:sums")
    assert "<unk><unk>" in out and "the tokenizer does not know the prompts" in out


def test_a_file_writes_no_control_character_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, own_data("{a}\x1b[31m"))
    assert "\x1b" not in out and "u001b[31m" in out
