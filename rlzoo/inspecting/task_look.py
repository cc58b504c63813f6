"""A task as a model meets it, before an hour is spent: prompts, golds, the grader, some responses, and the signal."""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import mean

from objectives import parse
from rlzoo.config import Config
from rlzoo.errors import UserError
from rlzoo.experiment.check import UNREADABLE, check_prompts, check_words, count_unknown
from rlzoo.experiment.experiment import epoch_order, step_seed, without_long_prompts
from rlzoo.model.accelerator import make_accelerator
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer, token_ids
from rlzoo.rollout import check_engine, load_engine
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.sampler import GradedRollouts, open_sampler
from rlzoo.tasks import OWN, Problem, Task, demonstrated_task, load_task
from rlzoo.tasks.base import Response
from rlzoo.tasks.dataset import has_no_answer
from rlzoo.tasks.grading import Graded, GraderPool
from rlzoo.tasks.reward import ROW

PROBED, GROUPS, SEEN = 32, 16, 256
"""Problems whose golds are graded, groups that are sampled, prompts that are measured."""
_FORMS = ("{}", r"\boxed{{{}}}", "<answer>{}</answer>", "#### {}", "Answer: {}")
_HARDLY = 0.1
_SHOWN = 4


@dataclass(frozen=True)
class Probe:
    """What the grader says to one kind of response to some problems."""

    name: str
    example: str
    graded: Sequence[Graded]

    @property
    def reward(self) -> float:
        """The mean."""
        return mean(response.grade.reward for response in self.graded)

    @property
    def correct(self) -> float:
        """The mean."""
        return mean(response.grade.correct for response in self.graded)


@dataclass(frozen=True)
class ReadToken:
    """A token of a prompt; one that is special stands for no text of its own."""

    id: int
    text: str
    is_special: bool


@dataclass(frozen=True)
class TaskLook:
    """What is seen of a task with a model."""

    config: Config
    task: Task
    tokenizer: Tokenizer
    problems: Sequence[Problem]
    """The first that training would draw."""
    prompt_lengths: Sequence[int]
    tokens: int
    unknown: int
    gold: Probe | None
    """None, as `wrong`, if no problem has a gold answer."""
    empty: Probe | None
    """None where episodes make the rewards, and no text by itself has one."""
    wrong: Probe | None
    fitting: Sequence[Problem]
    """The problems that are sampled, all of them short enough."""

    @cached_property
    def sampled(self) -> GradedRollouts:
        """As many responses to each problem as a group has. The model is loaded when this is first asked for."""
        config, rollout = self.config, self.config.rollout
        accelerator = make_accelerator(config.model.precision)
        with GraderPool.of(config.task, self.task.grader) as graders:
            policy = load_policy(config.model, self.tokenizer).to(accelerator.device)
            with (
                closing(load_engine(rollout, config.model, policy, self.tokenizer)) as engine,
                open_sampler(config.task, engine, graders, self.tokenizer) as sampler,
            ):
                sampling = Sampling(rollout.max_response_tokens, rollout.temperature, rollout.top_p)
                seed = step_seed(config.seed, 0, "task")
                return sampler(self.fitting, rollout.responses_per_prompt, sampling, seed)

    def read(self, problem: Problem) -> list[ReadToken]:
        """What the model reads, token by token."""
        ids, is_special = self.tokenizer.encode(problem.prompt), self.tokenizer.is_special
        return [ReadToken(token, self.tokenizer.piece(token), is_special(token)) for token in ids]

    def rendered(self, problem: Problem) -> str:
        """What the model reads, special tokens included."""
        return str(self.tokenizer.backend.decode(self.tokenizer.encode(problem.prompt)))

    @property
    def dropped(self) -> Sequence[str]:
        """The rows of a dataset that were left out, each with the reason."""
        return _dropped(self.task)

    def gold_of(self, problem: Problem) -> str:
        """The gold answer of a problem; where there is none, what the grader does instead."""
        if problem.answer:
            return problem.answer
        if not has_no_answer(problem):
            return f"no text; the row has {problem.data[ROW]['ground_truth']}"
        return f"no answer; {self.without_gold}"

    @property
    def without_gold(self) -> str:
        """What becomes of a problem that has no gold answer."""
        if self.config.task.environment:
            return f"{self.config.task.environment} makes the rewards"
        return "task.reward gets gold=''" if self.config.task.reward else "the task's grader does without"

    @cached_property
    def unanswered(self) -> int:
        """The training problems that have no gold answer."""
        return sum(map(has_no_answer, self.task.train))

    @property
    def with_signal(self) -> int:
        """The groups whose responses do not all earn the same, each reward by itself if the objective reads them so."""
        apart = self.sampled.rewards if "rewards" in parse(self.config.objective).needs else None
        rewards = self.sampled.reward[:, None] if apart is None else apart.nan_to_num()
        groups = rewards.view(-1, self.config.rollout.responses_per_prompt, rewards.shape[1])
        return int((groups != groups[:, :1]).any(2).any(1).sum())

    @property
    def groups(self) -> int:
        """How many were sampled."""
        return len(self.fitting)

    @property
    def truncated(self) -> float:
        """The share of the responses."""
        return float(self.sampled.rollouts.truncated.float().mean())

    @cached_property
    def cut_out(self) -> list[str]:
        """Special tokens that responses have and that graders do not see, those that end responses left out."""
        if self.tokenizer.keeps_special_tokens:
            return []
        rollouts, tokenizer = self.sampled.rollouts, self.tokenizer
        tokens = Counter(rollouts.tokens[rollouts.mask].tolist())
        ends = {*tokenizer.stop_tokens, tokenizer.backend.pad_token_id}
        special = [token for token, _ in tokens.most_common() if token not in ends and tokenizer.is_special(token)]
        return [tokenizer.piece(token) for token in special[:_SHOWN]]

    @property
    def obstacles(self) -> list[str]:
        """What stands in the way of learning, with its remedy; empty if nothing does."""
        rollout, signal = self.config.rollout, self.with_signal / self.groups
        how_many = "no" if not signal else "hardly any"
        gold = self.gold.reward if self.gold else math.inf
        checks = [
            (self.unknown > UNREADABLE * self.tokens, "the tokenizer does not know the prompts; choose another model"),
            (max(self.prompt_lengths) > rollout.max_prompt_tokens, "some prompts are longer than "
             f"rollout.max_prompt_tokens={rollout.max_prompt_tokens}; raise it, or set rollout.drop_long_prompts=true"),
            (self.gold and not self.gold.correct, "the grader accepts no gold answer; see task.columns, task.reward"),
            (self.empty and self.empty.reward >= gold, "an empty response earns as much as the gold answer"),
            (self.wrong and self.wrong.reward >= gold, "a wrong answer earns as much as the gold answer"),
            (self.truncated > UNREADABLE, f"most responses are truncated, without {self.tokenizer.ends}; raise "
             f"rollout.max_response_tokens={rollout.max_response_tokens}"),
            (bool(self.cut_out), "special tokens are cut out of the text that is graded, such as "
             f"{', '.join(self.cut_out)}; task.keep_special_tokens=true keeps them"),
            (signal < _HARDLY, f"{how_many} group has a signal; choose problems that the model solves now and then, "
             "say how to answer (task.instruction), or raise rollout.responses_per_prompt"),
        ]  # fmt: skip
        return [what for is_so, what in checks if is_so]


def look_at_task(config: Config) -> TaskLook:
    """Loads the task and grades golds. Raises UserError for what cannot be had or used."""
    check_words(config)
    check_engine(config)
    tokenizer = load_tokenizer(config.model, config.task)
    task = load_task(config.task, config.seed, config.evaluation.problems, tokenizer.is_rendered)
    if config.rollout.drop_long_prompts:
        task = without_long_prompts(task, config.rollout.max_prompt_tokens, tokenizer)
    problems = drawn_problems(config, task)
    lengths = [len(tokenizer.encode(problem.prompt)) for problem in problems]
    tokens, unknown = count_unknown(tokenizer, problems)
    limit = config.rollout.max_prompt_tokens
    fitting = [problem for problem, length in zip(problems, lengths, strict=True) if length <= limit]
    check_prompts(config.model, config.rollout, tokenizer, fitting[:GROUPS] or problems[:1])
    gold, wrong, empty = (None, None, None) if config.task.environment else _probes(task, problems, config, tokenizer)
    return TaskLook(config, task, tokenizer, problems, lengths, tokens, unknown, gold, empty, wrong, fitting[:GROUPS])


def drawn_problems(config: Config, task: Task) -> list[Problem]:
    """The first that training would draw. Raises UserError if there are none."""
    if not len(task.train):
        raise UserError(f"task.name={config.task.name} has no problems to train on")
    return [task.train[i] for i in epoch_order(len(task.train), config.seed, 0)[:SEEN]]


def _dropped(task: Task) -> Sequence[str]:
    """Of a task, or of the one that it is made of."""
    inner: Task | None = getattr(task, "task", None)
    return getattr(task, "dropped", ()) if inner is None else _dropped(inner)


def _probes(
    task: Task, problems: Sequence[Problem], config: Config, tokenizer: Tokenizer
) -> tuple[Probe, Probe, Probe] | tuple[None, None, Probe]:
    """Of golds, of wrong answers, and of empty ones."""
    with GraderPool.of(config.task, task.grader) as graders:
        probe = partial(_probe, graders, tokenizer)
        golds = _golds([problem for problem in problems if problem.answer][:PROBED], probe, config)
        return *golds, probe("empty", problems[:PROBED], lambda problem: "")


def _golds(
    problems: Sequence[Problem], probe: Callable[..., Probe], config: Config
) -> tuple[Probe, Probe] | tuple[None, None]:
    """The gold answers in the form that the grader likes best, and in the same form those of other problems."""
    if not problems:
        return None, None
    ways = {form.format("..."): _in_form(form) for form in _FORMS}
    if config.task.name in OWN:
        demonstrated = demonstrated_task(config.task)
        ways = {"as demonstrated": lambda problem: demonstrated.demonstration(problem, random.Random(0))}
    probes = [(probe(f"gold, {name}", problems, way), way) for name, way in ways.items()]
    best, way = max(probes, key=lambda pair: (pair[0].correct, pair[0].reward))
    others = {problem.id: _other(number, problems) for number, problem in enumerate(problems)}
    return best, probe("wrong, another's gold", problems, lambda problem: way(others[problem.id]))


def _in_form(form: str) -> Callable[[Problem], str]:
    return lambda problem: form.format(problem.answer)


def _other(number: int, problems: Sequence[Problem]) -> Problem:
    """The next problem that has another answer."""
    after = [*problems[number + 1 :], *problems[:number]]
    return next((problem for problem in after if problem.answer != problems[number].answer), problems[number])


def _probe(
    graders: GraderPool, tokenizer: Tokenizer, name: str, problems: Sequence[Problem], write: Callable[[Problem], str]
) -> Probe:
    texts = [write(problem) for problem in problems]
    tokens = [token_ids(tokenizer.backend, text, add_special_tokens=False) for text in texts]
    responses = [
        Response.of(text, ids, text, graders.step, graders.steps) for text, ids in zip(texts, tokens, strict=True)
    ]
    return Probe(name, responses[0], graders.grade(problems, responses))
