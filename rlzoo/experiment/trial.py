"""Tries an objective on a small batch before anything is started, so that a part that fails costs no evaluation."""

import inspect
import traceback
from collections.abc import Iterator
from typing import Any

import torch

import objectives.part
from objectives import Mask, Objective, ObjectiveError, Part, Penalty, TokenBatch, Weight, Writer, random_keys
from objectives.contract import BrokenLaw, check_finite, check_laws, gradients, with_made_up_fields
from rlzoo.config import RolloutConfig
from rlzoo.errors import UserError, one_line
from rlzoo.source import is_ours

GROUPS, LENGTH = 7, 6


def try_objective(objective: Objective, rollout: RolloutConfig, laws: bool = False) -> None:
    """Raises UserError, naming the part, if the objective fails or breaks a law.

    It is tried before and after the policy has moved, with the fields of the batch that are declared, as training has
    it. The zoo's own parts are held to the laws by tests: they are tried here only where `laws` asks for it.
    """
    thorough = laws or not all(is_ours(type(part).__module__) for part in objective.parts)
    problem = _problem(objective, rollout, thorough)
    if problem is None:
        return
    part = _to_blame(problem, objective, rollout, thorough)
    blamed = f"the part {part.name} fails" if part else "it fails"
    text = f"objective={objective}: {blamed} on a small batch: "
    if part is None or isinstance(problem, BrokenLaw):
        raise UserError(text + one_line(str(problem)))
    if isinstance(problem, NotImplementedError):
        raise UserError(text + _unwritten(part, problem))
    reads = ", ".join(sorted(part.needs | part.reads_once_moved)) or "no field"
    raise UserError(
        f"{text}{one_line(f'{type(problem).__name__}: {problem}')}. {_wanted(part)}; it asks for {reads} "
        "(`reads` names the fields of the batch that it gets, others may be None)"
    )


def oddities(objective: Objective, rollout: RolloutConfig) -> Iterator[str]:
    """Says which part masks every token of a small batch, and which turns the sign of every gradient."""
    batch, policy = _batch(rollout), Objective(tuple(set(objective.parts) - set(objective.all(Penalty))))
    whole = gradients(policy, batch, moved=True)
    for part in (*policy.all(Mask), *policy.all(Weight)):
        without = gradients(policy.without(part.name), batch, moved=True)
        if bool(without.any()) and not bool(whole.any()):
            yield f"{part.name} masks every token of a small batch"
        if bool((whole * without < 0).any()) and not bool((whole * without > 0).any()):
            yield f"{part.name} turns the sign of every gradient"


def _problem(objective: Objective, rollout: RolloutConfig, thorough: bool) -> Exception | None:
    """What goes wrong; None if nothing does. Raises ObjectiveError for what the zoo itself has a word for."""
    batch = _batch(rollout)
    try:
        if thorough:
            check_laws(objective, batch)
        else:
            for moved in (False, True):
                check_finite(objective, batch, moved)
    except ObjectiveError:
        raise
    except Exception as error:  # whatever a part from outside may raise
        return error
    return None


def _to_blame(problem: Exception, objective: Objective, rollout: RolloutConfig, thorough: bool) -> Part | None:
    """The part that the problem names, or else the one without which there is none."""
    named = problem.part if isinstance(problem, BrokenLaw) else ""
    for part in objective.parts:
        if part.name == named or (not named and _works_without(part, objective, rollout, thorough)):
            return part
    return None


def _works_without(part: Part, objective: Objective, rollout: RolloutConfig, thorough: bool) -> bool:
    try:
        return _problem(objective.without(part.name), rollout, thorough) is None
    except ObjectiveError:
        return False


def _batch(rollout: RolloutConfig) -> TokenBatch:
    """Groups that are mixed, all right, all wrong and equal otherwise, with every field that rollouts may have.

    Some tokens are certain, some log-probs and entropies equal, and in one group the reference is the policy.
    """
    size = rollout.responses_per_prompt
    rows, draw = GROUPS * size, torch.Generator().manual_seed(0)
    group, place = torch.arange(GROUPS).repeat_interleave(size), torch.arange(rows) % size
    reward = (place <= group % 2 * size // 3).float()  # one right response in every other group, several in the rest
    reward[group == 1], reward[group == 2], reward[group == 3] = 1.0, 0.0, 0.1
    length = torch.randint(1, min(LENGTH, rollout.max_response_tokens) + 1, (rows,), generator=draw)
    mask = torch.arange(LENGTH) < length[:, None]
    logp = torch.rand(rows, LENGTH, generator=draw).clamp(1e-3, 1 - 1e-3).log().round(decimals=1)
    entropy = (-logp * torch.rand(rows, LENGTH, generator=draw)).round(decimals=1)
    certain = torch.rand(rows, LENGTH, generator=draw) < 0.1
    logp, entropy = logp.masked_fill(certain, 0.0), entropy.masked_fill(certain, 0.0)
    truncated = length == rollout.max_response_tokens
    moved = 0.5 + torch.rand(rows, LENGTH, generator=draw)
    batch = TokenBatch(
        mask=mask,
        length=length,
        group=group,
        reward=reward,
        rewards=torch.stack([reward, (length % 3).float()], 1),
        correct=reward,
        truncated=truncated,
        max_length=rollout.max_response_tokens,
        logp_old=logp,
        entropy_old=entropy,
        sum_pi_squared_old=(2 * logp).exp() + (1 - logp.exp()).square() / 2,
        logp=moved * logp,
        entropy=moved * entropy,
        logp_ref=torch.where(group[:, None] == 0, logp, 1.1 * logp),
        logp_sampler=logp,
        writer=_writers(length),
        turn_reward=torch.stack([reward, reward / 2, 1 - reward], 1).repeat_interleave(2, 1),
        turn_state=torch.stack([0 * length, length % 2, length % 3], 1).repeat_interleave(2, 1),
        random_key=random_keys(group, LENGTH, seed=0),
    )
    return with_made_up_fields(batch)


def _writers(length: torch.Tensor) -> torch.Tensor:
    """[N, LENGTH]: the policy for this many tokens, and the environment for the next one."""
    position = torch.arange(LENGTH)
    behind = torch.where(position == length[:, None], Writer.ENVIRONMENT, Writer.NONE)
    return torch.where(position < length[:, None], Writer.POLICY, behind)


def _kind(part: Part) -> type:
    """The class of its stage."""
    return next(kind for kind in type(part).__mro__ if kind.__module__ == "objectives.part")


def _wanted(part: Part) -> str:
    """What the methods of its own are to give, as their kind says it."""
    wanted = [
        f"{name} is to give {_first_line(vars(_kind(part))[name])}"
        for name in vars(type(part))
        if inspect.isfunction(vars(_kind(part)).get(name)) and inspect.getdoc(vars(_kind(part))[name])
    ]
    return "; ".join(wanted) or f"Its kind is {_kind(part).__name__}"


def _unwritten(part: Part, problem: NotImplementedError) -> str:
    """Which method its kind asks for and the part lacks."""
    missing = traceback.extract_tb(problem.__traceback__)[-1].name
    kind = _kind(part)
    text = f"its kind is {kind.__name__}, which writes {missing}: {_first_line(getattr(kind, missing))}"
    strange = [name for name in vars(type(part)) if not hasattr(kind, name) and _kinds_that_write(name)]
    return "; ".join([text, *(f"{name} is what {' or '.join(_kinds_that_write(name))} writes" for name in strange)])


def _kinds_that_write(method: str) -> list[str]:
    """The kinds that have a method of this name."""
    classes = {
        name: value
        for name, value in vars(objectives.part).items()
        if inspect.isclass(value) and issubclass(value, Part)
    }
    return [name for name, value in classes.items() if inspect.isfunction(vars(value).get(method))]


def _first_line(function: Any) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0].rstrip(".")
