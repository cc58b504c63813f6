"""Rows of several turns: whose their tokens are, what their turns earned, and that draws are a row's own."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from objectives import Writer
from rlzoo.commands import main
from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.files import read_json_lines
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout.base import Rollouts, Sampling
from rlzoo.rollout.sampler import GradedRollouts
from rlzoo.tasks.base import Grade
from rlzoo.tasks.environments import Answer, Start, Step, Turn
from rlzoo.tasks.grading import Graded
from tests.conftest import error_of
from tests.processes import ONE, TWO, launch
from tests.rollout.calling_model import ADDS, TEMPLATE, TOOLS, save_calling_model
from tests.rollout.episodes import Sample, opened, save_acting

ROOM = 400
FIGURES = ("turns", "tool_calls", "tool_errors", "tool_tokens", "reward", "length", "gradient_norm", "grading_failed")
SMALL = ["rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "evaluation.problems=1", "seed=3"]
SMALL += ["rollout.max_response_tokens=150", "task.max_turns=3", "evaluation.samples=1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_acting(tmp_path_factory.mktemp("acting"))


def with_tools(folder: Path) -> list[str]:
    tools = [f"{folder}/tools.py:{name}" for name in ("add", "fail")]
    room = ["rollout.max_prompt_tokens=1000", f"rollout.max_response_tokens={ROOM}"]
    return [f"model.name={folder}/model", f"task.tools=[{','.join(tools)}]", *room]


def with_class(folder: Path, name: str, *rewards: str) -> list[str]:
    room = ["rollout.max_prompt_tokens=1000", f"rollout.max_response_tokens={ROOM}", "task.max_turns=4"]
    named = [f"task.environment={folder}/envs.py:{name}", f"task.name={folder}/rows.jsonl"]
    rewards_named = [f"task.reward=[{','.join(f'{folder}/envs.py:{reward}' for reward in rewards)}]"] if rewards else []
    return [f"model.name={folder}/model", *named, *rewards_named, *room]


@pytest.fixture(scope="module")
def calling(folder: Path) -> Iterator[Sample]:
    """Rows of arithmetic, with functions that answer calls."""
    with opened(load_config(with_tools(folder))) as sample:
        yield sample


@pytest.fixture(scope="module")
def showing(folder: Path) -> Iterator[Sample]:
    """Rows whose episodes show something first."""
    with opened(load_config(with_class(folder, "Showing"))) as sample:
        yield sample


# ---- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_turn_of_the_policy_and_the_answers_alternate_as_the_chat_template_writes_them(calling: Sample) -> None:
    graded, backend = calling(0, 6, 4), calling.tokenizer.backend
    several = 0
    for row, (tokens, mask) in enumerate(zip(graded.rollouts.tokens, graded.rollouts.mask, strict=True)):
        length = int(graded.rollouts.lengths[row])
        assert not mask[length:].any() and int(graded.figures["tool_tokens"][row]) == int((~mask[:length]).sum())
        runs = torch.tensor_split(torch.arange(length), (mask[:length].diff().nonzero()[:, 0] + 1).tolist())
        answers = ["".join(backend.decode(tokens[run].tolist())) for run in runs if not mask[run[0]]]
        assert all(text.startswith("\n<|im_start|>tool\n") for text in answers)
        assert all(text.endswith("<|im_end|>\n<|im_start|>assistant\n") for text in answers)
        turns = [tokens[run].tolist() for run in runs if mask[run[0]]]
        assert len(turns) == graded.figures["turns"][row] and calling.tokenizer.decode(turns[-1]) == graded.texts[row]
        assert all(turn[-1] in calling.tokenizer.stop_tokens for turn in turns[:-1])
        several += len(turns) > 1
    assert several >= 8, "few rows have several turns, and the test says little"
    assert {0.0} < set(graded.figures["tool_errors"].tolist())


@pytest.mark.parametrize("name", ["", pytest.param("Differing", marks=pytest.mark.slow)])
def test_one_pass_over_a_row_gives_the_log_probs_that_were_sampled(name: str, folder: Path) -> None:
    """Also where `reset` shows each episode of a group something else."""
    with opened(load_config(with_class(folder, name) if name else with_tools(folder))) as sample:
        rollouts = sample(0, 4, 4).rollouts
        found = sample.policy(rollouts.responses(), 1.0, with_entropy=True)
    assert (~rollouts.mask & (torch.arange(rollouts.mask.shape[1]) < rollouts.lengths[:, None])).any()
    for values, sampled in ((found.logp, rollouts.logp), (found.entropy, rollouts.entropy)):
        mask = rollouts.mask[:, : values.shape[1]]
        torch.testing.assert_close(values[mask], sampled[:, : mask.shape[1]][mask], rtol=0, atol=1e-5)
    assert not name or len({tuple(tokens[:30].tolist()) for tokens in rollouts.tokens[:4]}) == 4


def test_the_template_ends_a_turn_that_a_stop_text_has_cut(calling: Sample) -> None:
    tokenizer = calling.tokenizer
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
def test_with_a_single_turn_calls_are_not_answered(folder: Path, calling: Sample) -> None:
    with opened(load_config([*with_tools(folder), "task.max_turns=1"])) as single:
        graded = single(0, 3, 4)
    assert graded.figures["turns"].eq(1).all() and graded.figures["tool_calls"].eq(0).all()
    several = calling(0, 3, 4)
    for row, length in enumerate(graded.rollouts.lengths.tolist()):
        first = several.rollouts.tokens[row, :length].tolist()
        assert first == graded.rollouts.tokens[row, :length].tolist()


@pytest.mark.slow
def test_what_reset_shows_ends_the_last_message_of_the_prompt_and_is_no_token_of_the_policy(showing: Sample) -> None:
    graded = showing(0, 4, 3)
    rollouts, backend = graded.rollouts, showing.tokenizer.backend
    shown = []
    for row, (tokens, mask) in enumerate(zip(rollouts.tokens, rollouts.mask, strict=True)):
        first = int(mask.nonzero()[0])
        prompt = backend.decode([*rollouts.prompt_tokens()[row], *tokens[:first].tolist()])
        secret = prompt.rpartition("The secret is ")[2].partition(".")[0]
        whole = [{"role": "user", "content": f"Add up. The secret is {secret}."}]
        assert prompt == backend.decode(showing.tokenizer.encode(whole))
        assert not rollouts.logp[row, :first].any() and mask[first]
        shown.append(secret)
    groups = [shown[first : first + 3] for first in range(0, 12, 3)]
    assert [len(set(group)) for group in groups] == [1] * 4 and len(set(shown)) == 4
    # The reward counts the episode's own calls, and its tool sees the secret that reset has shown.
    for row, transcript in enumerate(graded.transcripts):
        answers = transcript.split("tool\n")[1:]
        sums = [float(it.split()[0]) for it in answers if shown[row] in it]
        assert sums == [0.25 * (number + 1) for number in range(len(sums))]
        if not rollouts.truncated[row]:  # which may be for the last answer, of which the row has no token
            assert graded.reward[row] == 0.25 * len(sums)
    assert graded.reward.unique().numel() > 2 and not rollouts.truncated.all()


def test_what_reset_shows_leaves_room_for_a_token_of_the_policy(folder: Path) -> None:
    with opened(load_config(with_class(folder, "Hostile"))) as sample:
        rollouts = sample(0, 2, 2).rollouts
    assert rollouts.lengths.eq(ROOM).all() and rollouts.mask.sum(1).eq(1).all() and rollouts.mask[:, -1].all()


# ---- the loop, by an engine and an environment that are scripted -----------------------------------------------------


@dataclass
class Engine:
    """Writes two tokens in each turn; keeps the seed, the numbers and the room that it is asked with."""

    tokens: Sequence[int]
    asked: list[tuple[int, list[int], int]] = field(default_factory=list)

    def generate(self, prompts: Any, responses: int, sampling: Sampling, seed: int, numbers: Any) -> Rollouts:
        self.asked.append((seed, [*numbers], sampling.max_response_tokens))
        prompt = torch.arange(len(prompts)).repeat_interleave(responses)
        tokens = torch.tensor([list(self.tokens)] * len(prompt))[:, : sampling.max_response_tokens]
        zeros, lengths = torch.zeros(tokens.shape), torch.full((len(prompt),), tokens.shape[1])
        return Rollouts(prompts, prompt, tokens, lengths, zeros == 0, zeros, zeros, lengths < 2, zeros.long())


@dataclass
class Scripted:
    """Answers every turn of every row; the second turn of row 1 ends its episode."""

    is_stateful: ClassVar[bool] = True
    starts: Sequence[Start] = ()
    turns: list[tuple[int, Turn]] = field(default_factory=list)

    def reset(self, starts: Sequence[Start], seed: int) -> list[Step]:
        self.starts = starts
        return [Step() for _ in starts]

    def step(self, turns: Mapping[int, Turn]) -> dict[int, Step]:
        self.turns += turns.items()
        return {
            row: Step([Answer("5")], reward=turn.number, is_over=(row, turn.number) == (1, 2))
            for row, turn in turns.items()
        }

    def grade(self, texts: Sequence[str]) -> list[Graded]:
        return [Graded(Grade(7.0, 0.0), "graded") for _ in texts]


@pytest.fixture
def scripted(calling: Sample) -> Callable[[int], tuple[Engine, Scripted, GradedRollouts]]:
    """Two rows for each of two problems, the third and the fifth of all, in three turns at most, in this room."""
    letter, end = (calling.tokenizer.backend.convert_tokens_to_ids(text) for text in ("a", "<|im_end|>"))

    def rows(room: int) -> tuple[Engine, Scripted, GradedRollouts]:
        engine, environment = Engine([letter, end]), Scripted()
        sampler = replace(calling.sampler, engine=engine, environment=environment, max_turns=3)  # type: ignore[arg-type]
        return engine, environment, sampler(calling.problems[:2], 2, Sampling(room), 7, [2, 4])

    return rows


def test_an_environment_receives_each_turn_once_and_what_it_answers_to_the_last_or_an_end_is_not_read(
    scripted: Any,
) -> None:
    engine, environment, graded = scripted(ROOM)
    assert [(start.group, start.row) for start in environment.starts] == [(2, 4), (2, 5), (4, 8), (4, 9)]
    numbers = [[turn.number for row, turn in environment.turns if row == asked] for asked in range(4)]
    assert numbers == [[1, 2, 3], [1, 2], [1, 2, 3], [1, 2, 3]]
    assert [turn.is_last for row, turn in environment.turns if row == 0] == [False, False, True]
    assert graded.figures["turns"].tolist() == [3, 2, 3, 3] and graded.figures["tool_calls"].tolist() == [2] * 4
    lengths, answer = graded.rollouts.lengths.tolist(), int(graded.figures["tool_tokens"][0]) // 2
    assert lengths == [6 + 2 * answer, 4 + answer, 6 + 2 * answer, 6 + 2 * answer]
    # A turn earns what its step says, the last one whatever the episode earns besides.
    assert graded.credit["turn_reward"][0, [0, 2 + answer, -1]].tolist() == [1.0, 2.0, 4.0]
    assert [numbers for _, numbers, _ in engine.asked] == [[2, 4], [4, 5, 8, 9], [4, 8, 9]]
    assert len({seed for seed, _, _ in engine.asked}) == 3, "each turn has draws of its own"


def test_a_row_without_room_for_a_token_behind_an_answer_ends_truncated_and_its_environment_hears_of_it(
    scripted: Any,
) -> None:
    *_, whole = scripted(ROOM)
    answer = int(whole.figures["tool_tokens"][0]) // 2
    *_, full = scripted(2 + answer)
    assert full.rollouts.truncated.all() and full.rollouts.lengths.eq(2).all()
    engine, environment, cut = scripted(2 + answer + 1)
    assert cut.rollouts.truncated.all() and cut.rollouts.lengths.eq(3 + answer).all() and engine.asked[1][2] == 1
    assert [turn for row, turn in environment.turns if row == 0][1:] == [Turn("a", 2, is_truncated=True, is_last=True)]


# ---- ends and users --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_turn_follows_behind_the_call_that_makes_an_episode_done(folder: Path, showing: Sample) -> None:
    with opened(load_config(with_class(folder, "Ending"))) as ending:
        ended, going = ending(0, 6, 4), showing(0, 6, 4)
    over = 0
    for row, reward in enumerate(ended.reward.tolist()):
        assert going.transcripts[row].startswith(ended.transcripts[row])
        calls = ended.figures["tool_calls"][row], going.figures["tool_calls"][row]
        assert calls[0] == calls[1] or reward > 0, "only what is over is cut short"
        over += reward > 0 and ended.figures["turns"][row] < going.figures["turns"][row]
        last = ended.rollouts.lengths[row] - 1
        assert ended.rollouts.mask[row, last], "what is answered to the last turn is no part of the row"
    assert over >= 2, "few episodes end before the policy does, and the test says little"
    assert not ended.rollouts.truncated[ended.reward > 0].any()


@pytest.mark.slow
def test_a_turn_that_calls_nothing_is_answered_by_the_user_whom_a_class_plays(folder: Path) -> None:
    with opened(load_config([*with_class(folder, "Asking"), "task.max_turns=8"])) as sample:
        graded = sample(0, 4, 4)
    asked = 0
    for row, transcript in enumerate(graded.transcripts):
        said = transcript.count("<|im_start|>user\nAnd ")
        assert transcript.count("<|im_start|>user\nAnd 1?") == (said > 0)
        if not graded.rollouts.truncated[row]:
            assert graded.reward[row] - 1 <= said <= graded.reward[row]
        called = transcript.count("<tool_call>") - transcript.count("</tool_call>")
        assert called == 0 and graded.figures["tool_calls"][row] <= transcript.count("<tool_call>")
        asked += said
    assert asked >= 4 and graded.figures["tool_calls"].sum() > 0 and graded.reward.max() >= 2.0


# ---- credit ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rewarded(folder: Path) -> Iterator[Any]:
    """Rows of a class that earns in turns, with what the policy wrote in each."""
    with opened(load_config([*with_class(folder, "Rewarded"), "task.reward_weights=[1.0,2.0]"])) as sample:
        graded = sample(0, 4, 4)
        spoken = {
            row: [sample.tokenizer.backend.decode(graded.rollouts.tokens[row, places]) for places in turns.values()]
            for row, turns in ((row, turns_of(graded, row)) for row in range(len(graded.reward)))
        }
        yield SimpleNamespace(**vars(graded), spoken=spoken)


def turns_of(graded: Any, row: int) -> dict[int, torch.Tensor]:
    """Turn -> the positions of its tokens."""
    mask, turn = graded.rollouts.mask[row], graded.credit["turn"][row]
    return {number: (mask & (turn == number)).nonzero()[:, 0] for number in turn[mask].unique().tolist()}


def test_turns_are_what_the_policy_wrote_between_answers(rewarded: Any) -> None:
    for row, turns in enumerate(rewarded.figures["turns"].tolist()):
        tokens = turns_of(rewarded, row)
        assert list(tokens) == list(range(int(turns)))
        assert all((places.diff() == 1).all() for places in tokens.values())
        ends = [places[-1] for places in tokens.values()]
        assert all(not rewarded.rollouts.mask[row, end + 1] for end in ends[:-1])


def test_rewards_of_turns_are_weighed_and_add_up_to_the_rows_with_the_episodes_own_in_the_last(rewarded: Any) -> None:
    counted = 0
    for row, spoken in rewarded.spoken.items():
        tokens = turns_of(rewarded, row).values()
        found = [float(rewarded.credit["turn_reward"][row, places].unique()) for places in tokens]
        assert sum(found) == pytest.approx(float(rewarded.reward[row]))
        answered = [2 * 0.25 * text.count(ADDS) for text in spoken][:-1]
        assert found[:-1] == pytest.approx(answered)
        counted += any(answered)
    assert counted > 0


def test_turns_begin_in_the_state_that_the_class_tells(rewarded: Any) -> None:
    named: dict[int, int] = {}
    for row, spoken in rewarded.spoken.items():
        sums = 0
        for text, places in zip(spoken, turns_of(rewarded, row).values(), strict=True):
            state = int(rewarded.credit["turn_state"][row, places].unique())
            assert named.setdefault(state, sums) == sums
            sums += text.count(ADDS)
    assert len(named) > 1


def test_every_token_has_a_writer(rewarded: Any) -> None:
    rollouts = rewarded.rollouts
    writers = rollouts.writers()
    assert torch.equal(writers == Writer.POLICY, rollouts.mask)
    assert torch.equal((writers != Writer.NONE).sum(1), rollouts.lengths)
    assert torch.equal((writers == Writer.ENVIRONMENT).sum(1).double(), rewarded.figures["tool_tokens"])


def test_a_state_that_nothing_can_be_compared_with_loses_the_episode_and_ends_no_run(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(load_config(with_class(folder, "Silent"))) as sample:
        graded = sample(0, 1, 2)
    assert set(graded.outcomes) <= {"failed", "truncated"} and not graded.reward.any()
    assert "it must be text, a number, or lists and dictionaries of them" in caplog.text


@pytest.mark.parametrize(
    ("objective", "reads"), [("gigpo", "the rewards and states of turns"), ("echo", "what an environment answers")]
)
def test_what_only_turns_have_is_refused_by_name_where_there_is_one(
    objective: str, reads: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = error_of(capsys, "train", f"objective={objective}", f"output={tmp_path / 'run'}")
    assert reads in error and "task.name=sums is one turn; set task.tools or task.environment" in error


# ---- draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["calling", "showing"])
def test_a_row_is_the_same_whatever_other_rows_there_are(kind: str, request: pytest.FixtureRequest) -> None:
    sample = request.getfixturevalue(kind)
    whole, half = sample(0, 4, 3), sample(2, 2, 3)
    assert whole.transcripts[6:] == half.transcripts
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
def test_rows_do_not_wait_for_other_problems_where_the_engine_answers_side_by_side(calling: Sample) -> None:
    together = calling(0, 5, 4)
    engine: Any = SideBySide(calling.sampler.engine)
    apart = replace(calling.sampler, engine=engine)(together.problems, 4, Sampling(ROOM), 7, range(5))
    assert engine.goes_on.is_set() and engine.asked[0] > 0 and len(engine.asked) > 2
    assert apart.transcripts == together.transcripts and torch.equal(apart.reward, together.reward)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tools", pytest.param("class", marks=pytest.mark.exhaustive)])
def test_two_processes_hold_the_rows_of_one(kind: str, folder: Path, tmp_path: Path) -> None:
    rewarded = [*with_tools(folder), f"task.reward=[{folder}/tools.py:length]"]
    keys = rewarded if kind == "tools" else with_class(folder, "Showing")
    keys += [
        *SMALL,
        "rollout.prompts_per_step=5",
        "train.steps=2",
        "objective=grpo-kl",
        f"rollout.max_response_tokens={ROOM}",
    ]
    for name, launcher in (("one", ONE), ("two", TWO)):
        launch([*launcher, "-m", "rlzoo", "train", *keys, f"output={tmp_path / name}"])
    one, two = (read_json_lines(tmp_path / name / "metrics.jsonl") for name in ("one", "two"))
    for alone, together in zip(one, two, strict=True):
        assert alone["turns"] > 1 and alone["gradient_norm"] > 0
        for name in FIGURES:
            assert together[name] == pytest.approx(alone[name], rel=1e-4), name


# ---- whole runs ------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.slow
def test_a_run_as_trl_writes_it_trains_and_a_resumed_one_has_the_same_episodes(folder: Path, tmp_path: Path) -> None:
    keys = [*with_class(folder, "Counting", "reward_func"), *SMALL, "objective=reinforce_pp"]
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert main(["train", *keys, "train.steps=2", f"output={whole}"]) == 0
    assert main(["train", *keys, "train.steps=1", f"output={resumed}"]) == 0
    assert main(["train", *keys, "train.steps=2", f"output={resumed}", "resume=true"]) == 0
    first, second = (read_json_lines(path / "metrics.jsonl") for path in (whole, resumed))
    for name in FIGURES:
        assert [step[name] for step in first] == [step[name] for step in second], name
    assert first[0]["turns"] > 1 and first[0]["gradient_norm"] > 0 and first[0]["sampler/difference"] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["gigpo", "reinforce_pp+echo-kl_reward"])
def test_a_run_learns_from_turns_and_from_what_tools_answer(objective: str, folder: Path, tmp_path: Path) -> None:
    keys = [*with_class(folder, "Earning"), *SMALL, "train.steps=1", f"objective={objective}"]
    assert main(["train", *keys, "rollout.max_response_tokens=300", f"output={tmp_path / 'run'}"]) == 0
    (step,) = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert step["gradient_norm"] > 0 and step["sampler/difference"] < 1e-5


@pytest.mark.slow
def test_a_run_with_tools_is_evaluated_and_looked_at_if_its_tools_are_trusted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [*with_tools(folder), *SMALL, "objective=reinforce_pp", f"task.reward={folder}/tools.py:length"]
    run = tmp_path / "run"
    assert main(["train", *keys, "train.steps=1", f"output={run}"]) == 0
    record = read_json_lines(run / "responses.jsonl")[0]
    assert record["response"] in record["transcript"].replace("<pad>", "") and record["turns"] >= 1
    trust = f"trust={run}/config.yaml"
    assert main(["inspect", str(run), trust]) == 0
    assert main(["eval", str(run), trust]) == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # as if another person had made it
    capsys.readouterr()
    assert "was not executed" in error_of(capsys, "eval", run)
    assert "leave rollout.ahead out" in error_of(capsys, "train", *keys, "rollout.ahead=1")


@pytest.mark.slow
def test_what_cannot_be_had_with_an_episode_is_refused_by_name(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [*with_class(folder, "Showing"), *SMALL, "objective=reinforce_pp", "train.steps=1"]
    assert main(["train", *keys, f"output={tmp_path / 'run'}"]) == 0
    (kept,) = (tmp_path / "run" / "evaluation").glob("step-000001*.jsonl")
    capsys.readouterr()
    assert "was not executed" in error_of(capsys, "grade", "regrade=true", kept)
    told = error_of(capsys, "grade", "regrade=true", kept, f"trust={kept}")
    assert "cannot be graded again: the rewards of" in told and "rlzoo eval samples and grades again" in told
    told = error_of(capsys, "train", *keys, "rollout.ahead=1")
    assert "rollout.ahead=1: the environment of" in told and "leave rollout.ahead out" in told
    assert main(["task", *with_class(folder, "Showing"), "rollout.responses_per_prompt=2"]) == 0
