"""Rows of several turns: whose their tokens are, that no turn is tokenised again, and that draws are a row's own."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest
import torch

from rlzoo.commands import main
from rlzoo.config import Config, load_config
from rlzoo.errors import UserError
from rlzoo.files import read_json_lines
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout import load_engine
from rlzoo.rollout.base import Rollouts, Sampling
from rlzoo.rollout.sampler import GradedRollouts, open_sampler
from rlzoo.tasks import load_task
from rlzoo.tasks.grading import GraderPool
from tests.conftest import error_of
from tests.processes import ONE, TWO, launch
from tests.rollout.calling_model import TEMPLATE, TOOLS, save_calling_model

ROOM = 400


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that calls, and the tools beside it."""
    folder = tmp_path_factory.mktemp("calling")
    save_calling_model(folder / "model")
    (folder / "tools.py").write_text(TOOLS)
    return folder


def words(calling: Path) -> list[str]:
    tools = [f"{calling}/tools.py:{name}" for name in ("add", "fail")]
    room = ["rollout.max_prompt_tokens=1000", f"rollout.max_response_tokens={ROOM}"]
    return [f"model.name={calling}/model", f"task.tools=[{','.join(tools)}]", *room]


@contextmanager
def opened(config: Config) -> Iterator[Any]:
    """Samples rows for the first problems of arithmetic: `(start, problems, responses)`."""
    tokenizer, task = load_tokenizer(config.model, config.task), load_task(config.task)
    policy = load_policy(config.model, tokenizer)
    engine = load_engine(config.rollout, config.model, policy, tokenizer)
    with GraderPool(task.grader) as graders, open_sampler(config.task, engine, graders, tokenizer) as environment:

        def sample(start: int, problems: int, responses: int) -> GradedRollouts:
            numbers = range(start, start + problems)
            asked = [task.train[number] for number in numbers]
            graded: GradedRollouts = environment(asked, responses, Sampling(ROOM), 7, numbers)
            return graded

        sample.tokenizer, sample.policy = tokenizer, policy  # type: ignore[attr-defined]
        sample.environment = environment  # type: ignore[attr-defined]
        yield sample


@pytest.fixture(scope="module")
def sample(calling: Path) -> Iterator[Any]:
    with opened(load_config(words(calling))) as sampler:
        yield sampler


@pytest.mark.slow
def test_a_turn_of_the_policy_and_the_answers_alternate_as_the_chat_template_writes_them(sample: Any) -> None:
    graded, backend = sample(0, 6, 4), sample.tokenizer.backend
    several = 0
    for row, (tokens, mask) in enumerate(zip(graded.rollouts.tokens, graded.rollouts.mask, strict=True)):
        length = int(graded.rollouts.lengths[row])
        assert not mask[length:].any() and int(graded.figures["tool_tokens"][row]) == int((~mask[:length]).sum())
        runs = torch.tensor_split(torch.arange(length), (mask[:length].diff().nonzero()[:, 0] + 1).tolist())
        answers = ["".join(backend.decode(tokens[run].tolist())) for run in runs if not mask[run[0]]]
        assert all(text.startswith("\n<|im_start|>tool\n") for text in answers)
        assert all(text.endswith("<|im_end|>\n<|im_start|>assistant\n") for text in answers)
        turns = [tokens[run].tolist() for run in runs if mask[run[0]]]
        assert len(turns) == graded.figures["turns"][row] and sample.tokenizer.decode(turns[-1]) == graded.texts[row]
        assert all(turn[-1] in sample.tokenizer.stop_tokens for turn in turns[:-1])
        several += len(turns) > 1
    assert several >= 8, "few rows have several turns, and the test says little"
    assert {0.0} < set(graded.figures["tool_errors"].tolist())


def test_one_pass_over_a_conversation_gives_the_log_probs_that_were_sampled(sample: Any) -> None:
    rollouts = sample(0, 4, 4).rollouts
    found = sample.policy(rollouts.responses(), 1.0, with_entropy=True)
    assert (~rollouts.mask & (torch.arange(rollouts.mask.shape[1]) < rollouts.lengths[:, None])).any()
    for values, sampled in ((found.logp, rollouts.logp), (found.entropy, rollouts.entropy)):
        width = values.shape[1]
        mask = rollouts.mask[:, :width]
        torch.testing.assert_close(values[mask], sampled[:, :width][mask], rtol=0, atol=1e-5)


def test_the_template_ends_a_turn_that_a_stop_text_has_cut(sample: Any) -> None:
    tokenizer = sample.tokenizer
    end, letter = (tokenizer.backend.convert_tokens_to_ids(text) for text in ("<|im_end|>", "a"))
    ended, cut = (tokenizer.answered(it, [{"role": "tool", "content": "5"}]) for it in ([letter, end], [letter]))
    assert cut == [end, *ended]
    assert tokenizer.backend.decode(ended) == "\n<|im_start|>tool\n5<|im_end|>\n<|im_start|>assistant\n"


TALKING = """
class Talking:
    def reset(self): ...
    def turn_answer(self, turn): ...
"""


@pytest.mark.parametrize(
    ("role", "written", "told"),
    [
        ("tool", "{{ raise_exception('no tools here') }}", "fails (no tools here)"),
        ("tool", "", "it writes something else in its place"),
        ("tool", "{{ m['content'] | tojson }}", "it writes something else in its place"),
        ("user", "{{ raise_exception('roles must alternate') }}", "fails (roles must alternate)"),
    ],
)
def test_a_template_that_cannot_write_an_answer_is_refused_before_a_turn_is_sampled(
    role: str, written: str, told: str, tmp_path: Path
) -> None:
    save_calling_model(tmp_path / "model")
    (tmp_path / "mine.py").write_text(TOOLS + TALKING)
    key = "task.tools=[{}:add]" if role == "tool" else "task.environment={}:Talking"
    config = load_config([f"model.name={tmp_path}/model", key.format(tmp_path / "mine.py")])
    load_tokenizer(config.model, config.task)
    content = "{{ m['content'] }}"
    answering = f"{{% if m['role'] == '{role}' and loop.index0 %}}{written}{{% else %}}{content}{{% endif %}}"
    (tmp_path / "model" / "chat_template.jinja").write_text(TEMPLATE.replace(content, answering))
    refused = rf"model cannot answer .* of role {role} \({re.escape(told)}\); choose a model"
    with pytest.raises(UserError, match=refused):
        load_tokenizer(config.model, config.task)
    load_tokenizer(config.model)


@pytest.mark.slow
def test_a_row_is_the_same_whatever_other_rows_there_are(sample: Any) -> None:
    whole, half = sample(0, 4, 4), sample(2, 2, 4)
    assert [*whole.transcripts[8:]] == [*half.transcripts]
    assert len(set(whole.transcripts)) == len(whole.transcripts)


class SideBySide:
    """An engine whose second turn of the first problem waits until another problem has asked for its third."""

    side_by_side = True

    def __init__(self, engine: Any) -> None:
        self.engine, self.lock, self.goes_on = engine, Lock(), Event()
        self.asked = Counter[int]()
        """How many further turns each problem has asked for."""

    def generate(self, prompts: Any, responses: int, sampling: Sampling, seed: int, numbers: Any = None) -> Rollouts:
        """What the engine samples, whose numbers are those of rows behind the first turn."""
        problems = {number // 4 for number in numbers} if responses == 1 else set()
        if len(problems) == 1:
            self.asked.update(problems)
            if max(self.asked[number] for number in range(1, 5)) > 1:
                self.goes_on.set()
            assert problems != {0} or self.goes_on.wait(60), "a row waits for rows of other problems"
        with self.lock:
            rollouts: Rollouts = self.engine.generate(prompts, responses, sampling, seed, numbers)
            return rollouts


@pytest.mark.slow
def test_rows_do_not_wait_for_other_problems_where_the_engine_answers_side_by_side(calling: Path) -> None:
    with opened(load_config(words(calling))) as sample:
        together = sample(0, 5, 4)
        engine = SideBySide(sample.environment.engine)
        apart = replace(sample.environment, engine=engine)(together.problems, 4, Sampling(ROOM), 7, range(5))
    assert engine.goes_on.is_set() and engine.asked[0] > 0 and len(engine.asked) > 2
    assert apart.transcripts == together.transcripts and torch.equal(apart.reward, together.reward)


@pytest.mark.slow
def test_with_a_single_turn_calls_are_not_answered(calling: Path, sample: Any) -> None:
    with opened(load_config([*words(calling), "task.max_turns=1"])) as single:
        graded = single(0, 3, 4)
    assert graded.figures["turns"].eq(1).all() and graded.figures["tool_calls"].eq(0).all()
    several = sample(0, 3, 4)
    for row, length in enumerate(graded.rollouts.lengths.tolist()):
        first = several.rollouts.tokens[row, :length].tolist()
        assert first == graded.rollouts.tokens[row, :length].tolist()


@pytest.mark.slow
def test_two_processes_hold_the_conversations_of_one(calling: Path, tmp_path: Path) -> None:
    small = ["rollout.prompts_per_step=5", "rollout.responses_per_prompt=4", "evaluation.problems=2", "train.steps=2"]
    keys = [*words(calling), *small, "objective=grpo-kl", f"task.reward=[{calling}/tools.py:length]"]
    for name, launcher in (("one", ONE), ("two", TWO)):
        launch([*launcher, "-m", "rlzoo", "train", *keys, "evaluation.samples=1", f"output={tmp_path / name}"])
    one, two = (read_json_lines(tmp_path / name / "metrics.jsonl") for name in ("one", "two"))
    for alone, together in zip(one, two, strict=True):
        assert alone["turns"] > 1 and alone["gradient_norm"] > 0
        for name in ("turns", "tool_calls", "tool_errors", "tool_tokens", "reward", "length", "gradient_norm"):
            assert together[name] == pytest.approx(alone[name], rel=1e-4), name


@pytest.mark.slow
def test_a_run_with_tools_trains_is_resumed_evaluated_and_looked_at(
    calling: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["rollout.prompts_per_step=4", "rollout.responses_per_prompt=4", "evaluation.problems=4"]
    keys = [
        *words(calling),
        *small,
        "evaluation.samples=2",
        "objective=reinforce_pp",
        "rollout.max_response_tokens=150",
    ]
    keys += [f"task.reward={calling}/tools.py:length"]
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert main(["train", *keys, "train.steps=2", f"output={whole}"]) == 0
    assert main(["train", *keys, "train.steps=1", f"output={resumed}"]) == 0
    assert main(["train", *keys, "train.steps=2", f"output={resumed}", "resume=true"]) == 0
    first, second = (read_json_lines(folder / "metrics.jsonl") for folder in (whole, resumed))
    for name in ("turns", "tool_calls", "tool_errors", "tool_tokens", "reward", "length", "gradient_norm"):
        assert [step[name] for step in first] == [step[name] for step in second], name
    assert first[0]["turns"] > 1 and first[0]["gradient_norm"] > 0 and first[0]["sampler/difference"] < 1e-5
    record = read_json_lines(whole / "responses.jsonl")[0]
    assert record["response"] in record["transcript"].replace("<pad>", "") and record["turns"] >= 1
    trust = f"trust={whole}/config.yaml"
    assert main(["inspect", str(whole), trust]) == 0
    assert main(["eval", str(whole), trust]) == 0
    capsys.readouterr()
    assert "is not obeyed" in error_of(capsys, "eval", whole)
    assert "leave rollout.ahead out" in error_of(capsys, "train", *keys, "rollout.ahead=1")
