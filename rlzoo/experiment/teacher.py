"""The teacher of a run: which model it is, what it reads, and what has to be so that its log-probs mean something."""

from collections.abc import Sequence
from dataclasses import replace

from objectives import Objective
from rlzoo.config import Config, ModelConfig, TaskConfig
from rlzoo.errors import UserError
from rlzoo.experiment.prompts import check_prompts
from rlzoo.model.pretrained import POLICY, as_teacher, errors_naming
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.tasks.base import Problem
from rlzoo.tasks.text import Prompt, asked, asking

FIELD = "logp_teacher"
PROMPT, ANSWER = "{prompt}", "{answer}"
"""What a template says where a problem's own text goes."""


def check_teacher_is_read(objective: Objective, model: ModelConfig, task: TaskConfig) -> None:
    """Raises UserError for keys of a teacher that no part of the objective reads."""
    if FIELD in objective.needs:
        return
    other = "" if model.teacher == POLICY else model.teacher
    given = {"model.teacher": other, "task.teacher_prompt": task.teacher_prompt}
    for key, value in given.items():
        if value:
            raise UserError(
                f"{key}={value} has no effect: no part of {objective} reads a teacher; add +opd, or leave it out"
            )


def check_teacher_is_there(objective: Objective, model: ModelConfig, task: TaskConfig) -> None:
    """Raises UserError if a part reads a teacher and there is none, or a template that says nothing."""
    template = task.teacher_prompt
    if FIELD in objective.needs and model.teacher == POLICY and not template:
        reader = next(part.name for part in objective.parts if FIELD in part.needs)
        raise UserError(
            f"objective={objective}: {reader} needs a teacher; set model.teacher to a model, or task.teacher_prompt to "
            f"what the model itself may know more, as in '{PROMPT} (the answer is {ANSWER})'"
        )
    if template and PROMPT not in template:
        raise UserError(f"task.teacher_prompt={template!r} has no {PROMPT}; put it where the prompt goes")
    if template.strip() == PROMPT:
        raise UserError(f"task.teacher_prompt={template!r} says no more than the prompt; add {ANSWER}, or leave it out")


def check_teacher(config: Config, tokenizer: Tokenizer, problems: Sequence[Problem]) -> None:
    """Raises UserError for a teacher with another vocabulary, and for what it cannot read of the problems."""
    model, other, task_prompt = config.model, as_teacher(config.model), config.task.teacher_prompt
    if other is not None:
        with errors_naming("model.teacher"):
            theirs = load_tokenizer(other)
        if theirs.backend.get_vocab() != tokenizer.backend.get_vocab():
            raise UserError(
                f"model.teacher={model.teacher} has another vocabulary than model.name={model.name}: "
                f"{len(theirs.backend)} tokens, and {len(tokenizer.backend)}, which are not the same; a token of one "
                f"means nothing to the other, so choose a teacher of the same family"
            )
        model, tokenizer = other, replace(tokenizer, context_length=theirs.context_length)
    if task_prompt and any(isinstance(it.prompt, str) and tokenizer.is_rendered(it.prompt) for it in problems):
        raise UserError(
            f"task.teacher_prompt={task_prompt!r} cannot be filled: the prompts of this dataset are rendered with a "
            f"chat template already; leave it out"
        )
    informed = [replace(problem, prompt=teacher_prompt(config.task, problem)) for problem in problems]
    check_prompts(model, config.rollout, tokenizer, informed, "the teacher's prompt (task.teacher_prompt)")


def teacher_prompt(task: TaskConfig, problem: Problem) -> Prompt:
    """What the teacher reads of a problem: `task.teacher_prompt` in place of the message that asks."""
    template, prompt = task.teacher_prompt, problem.prompt
    if not template:
        return prompt
    if not isinstance(prompt, str):
        return asking(prompt, _filled(template, asked(prompt), problem.answer))
    return _filled(template, prompt, problem.answer)


def _filled(template: str, prompt: str, answer: str) -> str:
    """The template with both in their places; what looks like a place in the prompt is its text."""
    return answer.join(piece.replace(PROMPT, prompt) for piece in template.split(ANSWER))
