"""The same episodes in TRL's loop and in ours: what the policy writes in each turn is planned, all else is theirs."""

import contextlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from datasets import Dataset
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.chat_template_utils import qwen3_instruct_2507_chat_template

from objectives.adapters.trl import ZooGRPOTrainer
from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.experiment.experiment import Experiment
from rlzoo.model.policy import load_policy
from rlzoo.rollout.base import Rollouts, Sampling
from rlzoo.rollout.sampler import Sampler, open_sampler
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.reward import Row
from rlzoo.training.step import StepRollouts, Trainer
from tests.adapters_trl import counting_game
from tests.adapters_trl.gradients import Ours
from tests.adapters_trl.rig import Along, Weights, settings
from tests.rollout.calling_model import calling_tokenizer, save_calling_model
from tests.training.recording import sampled_responses

GAME = counting_game.__file__
END, OPENING = "<|im_end|>", "<|im_start|>assistant\n"
MOST_TURNS, ROOM = 4, 600
PROBLEMS, SIZE, MINIBATCHES, PER_DEVICE = 2, 4, 2, 2


def call(name: str, **arguments: Any) -> str:
    """A call as Qwen's chat templates ask for it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


PLANS = (
    ("0 None is my guess.",),
    ("1 I try. " + call("add", number=4), "That is it."),
    ("2 " + call("add", number=1) + "\n" + call("add", number=2), "Done, I think!"),
    ("3 " + call("add", number=2), "Where am I? " + call("look"), "I stop at two."),
    ("4 " + call("add", number=1), *[call("add", number=1)] * 3),
    ("5 " + call("add", number=2), "So I go on, and " * 50),
    ("6 " + call("look"), "Nothing yet."),
    ("7 " + call("add", number=1) + call("rules"),),
)
"""The turns of a row, the first of which begins with the plan's number; half of them for rows that are told the number.

A turn without a call, one call, two in a turn, two turns with calls; more calls than turns, a last turn without end,
one call, and an answer for which there is no room.
"""
ROWS = [
    {"prompt": [{"role": "user", "content": f"Count, please ({row})."}], "wanted": 3 + row % 2, "is_told": row % 2 > 0}
    for row in range(24)
]
"""Of which seed 0 takes first one that is not told the number, and then one that is."""


def planned(tokenizer: Any, conversation: Sequence[int], row: int) -> list[int]:
    """The next turn of a conversation; of those where nothing has been written yet, it is number `row`."""
    read, *written = tokenizer.decode(conversation).split(OPENING)[:-1]
    first = row % SIZE + (0 if "It is 4" in read else SIZE)
    plan = PLANS[int(written[0][0]) if written else first]
    return list(tokenizer(plan[len(written)] + END)["input_ids"])


def save_model(folder: Path) -> Path:
    """A tiny random model with the tokens and the chat template of Qwen3, whose turns end with its end of sequence."""
    save_calling_model(folder, calls=())
    tokenizer, model = calling_tokenizer(()), AutoModelForCausalLM.from_pretrained(folder)
    tokenizer.eos_token, tokenizer.chat_template = END, qwen3_instruct_2507_chat_template
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class PlannedEngine:
    """An engine of ours whose policy writes what is planned."""

    sees_entropy, shares_weights, sleeps = True, True, False

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def generate(
        self, prompts: Sequence[Sequence[int]], responses_per_prompt: int, sampling: Sampling, *_: Any
    ) -> Rollouts:
        """The turn of each row, cut where there is no more room."""
        prompt = torch.arange(len(prompts) * responses_per_prompt) // responses_per_prompt
        whole = [planned(self.tokenizer, prompts[number], row) for row, number in enumerate(prompt.tolist())]
        turns = [turn[: sampling.max_response_tokens] for turn in whole]
        tokens, lengths = (
            pad_sequence([torch.tensor(turn) for turn in turns], batch_first=True),
            torch.tensor([len(turn) for turn in turns]),
        )
        sampled = sampled_responses([*map(list, prompts)], prompt, tokens, lengths, torch.zeros(tokens.shape))
        return replace(sampled, truncated=lengths < torch.tensor([len(turn) for turn in whole]))


def generating(tokenizer: Any) -> Callable[..., Tensor]:
    """The `generate` of a model of transformers that writes what is planned."""

    def generate(input_ids: Tensor, attention_mask: Tensor, generation_config: Any, **_: Any) -> Tensor:
        read = [ids[there.bool()].tolist() for ids, there in zip(input_ids, attention_mask, strict=True)]
        turns = [planned(tokenizer, ids, row)[: generation_config.max_new_tokens] for row, ids in enumerate(read)]
        written = pad_sequence([torch.tensor(turn) for turn in turns], True, tokenizer.pad_token_id)
        return torch.cat([input_ids, written], 1)

    return generate


@dataclass(frozen=True)
class Rig:
    """A model, its weights at each update and those of its reference, and our own environment of the game."""

    folder: Path
    environment: Sampler

    def experiment(self, objective: str) -> Experiment:
        """A step of two groups, each of which is a mini-batch of two micro-batches."""
        return check(load_config([*words(self.folder), f"objective={objective}"]))

    def model(self) -> Any:
        """The policy as transformers has it."""
        return AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32)

    def weights(self, seed: int) -> Weights:
        """The model's weights, a little changed."""
        generator = torch.Generator().manual_seed(seed)
        state = self.model().state_dict()
        return {name: value + 0.003 * torch.randn(value.shape, generator=generator) for name, value in state.items()}

    def collected(self, objective: str) -> StepRollouts:
        """The episodes as our own trainer samples them."""
        experiment = self.experiment(objective)
        policy = load_policy(experiment.config.model, experiment.tokenizer)
        return Trainer(experiment, Accelerator(cpu=True), policy, None, self.environment, learns=False).collect()

    def ours(self, objective: str) -> list[Tensor]:
        """The gradients of a step's updates by our trainer."""
        experiment = self.experiment(objective)
        policy = load_policy(experiment.config.model, experiment.tokenizer)
        frozen = policy.frozen_copy()
        weights = [self.weights(number) for number in range(MINIBATCHES)]
        policy.model.load_state_dict(weights[0])
        frozen.model.load_state_dict(self.weights(MINIBATCHES))
        own = Ours(experiment, Accelerator(cpu=True), policy, frozen, sampler=self.environment)
        own.gradients, own.weights, own.per_device = [], weights, PER_DEVICE
        own.learn(self.collected(objective))
        return own.gradients

    def trainer(self, objective: str, model: Any, **others: Any) -> ZooGRPOTrainer:
        """TRL's trainer with the class as its environment."""
        window = PROBLEMS * SIZE // MINIBATCHES // PER_DEVICE
        args = settings(
            self.folder / "trl",
            PER_DEVICE,
            window,
            num_generations=SIZE,
            steps_per_generation=MINIBATCHES * window,
            max_steps=MINIBATCHES,
            max_completion_length=ROOM,
            max_tool_calling_iterations=MOST_TURNS - 1,
            learning_rate=0,
        )
        return ZooGRPOTrainer(
            model,
            counting_game.reached,
            objective,
            args,
            train_dataset=Dataset.from_list(self.rows()),
            environment_factory=counting_game.CountingGame,
            processing_class=AutoTokenizer.from_pretrained(self.folder),
            **others,
        )

    def theirs(self, objective: str) -> tuple[ZooGRPOTrainer, list[Tensor]]:
        """TRL's trainer behind the same updates, and their gradients."""
        along, model = Along([self.weights(number) for number in range(MINIBATCHES)]), self.model()
        peer = self.trainer(objective, model, correct="reached", callbacks=[along])
        model.generate = generating(peer.processing_class)
        model.load_state_dict(along.weights[0])
        if peer.ref_model is not None:
            peer.ref_model.load_state_dict(self.weights(MINIBATCHES))
        with contextlib.redirect_stdout(io.StringIO()):
            peer.train()
        return peer, along.gradients

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the problems that our own trainer takes first."""
        return [dict(Row.of(problem).columns) for problem in self.experiment("grpo").problems(0, PROBLEMS)]


def words(folder: Path) -> list[str]:
    """The keys of a run that holds the episodes."""
    return [
        f"model.name={folder}",
        f"task.name={folder}/rows.jsonl",
        f"task.environment={GAME}:CountingGame",
        f"task.reward=[{GAME}:reached]",
        f"task.max_turns={MOST_TURNS}",
        f"rollout.prompts_per_step={PROBLEMS}",
        f"rollout.responses_per_prompt={SIZE}",
        f"rollout.max_response_tokens={ROOM}",
        "rollout.max_prompt_tokens=2000",
        "seed=0",
        f"train.minibatches_per_step={MINIBATCHES}",
        "evaluation.problems=1",
        "evaluation.samples=1",
    ]


@contextmanager
def rig(folder: Path) -> Iterator[Rig]:
    """Everything in a folder."""
    save_model(folder)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    experiment = check(load_config(words(folder)))
    engine: Any = PlannedEngine(experiment.tokenizer.backend)
    task = experiment.config.task
    with (
        GraderPool(experiment.task.grader) as graders,
        open_sampler(task, engine, graders, experiment.tokenizer) as environment,
    ):
        yield Rig(folder, environment)
