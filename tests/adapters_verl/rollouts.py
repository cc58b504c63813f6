"""Rollouts that are given, their statistics under the embedded model, and the gradients of our loop on them."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import AutoModelForCausalLM
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from objectives import Objective, TokenBatch, random_keys, writers
from tests.guide import learn

MODEL = Path(__file__).parents[2] / "rlzoo" / "embedded" / "sums"
GROUPS, SIZE, LENGTH, MINIBATCHES = 6, 4, 9, 2
SEED = 1
"""One at which no two tokens have so nearly the same statistics that a quantile between them goes by their last bit."""
WRITABLE, END = 16, 16
"""The embedded model's characters, and its end of sequence."""

Weights = Mapping[str, Tensor]


def embedded() -> Any:
    """The embedded model in float32."""
    return copy.deepcopy(_loaded())


@cache
def _loaded() -> Any:
    return AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)


@dataclass(frozen=True)
class Given:
    """Rollouts: token ids of prompts and responses, and what objectives read of them."""

    prompts: Sequence[Sequence[int]]
    responses: Sequence[Sequence[int]]
    batch: TokenBatch

    @property
    def response_mask(self) -> Tensor:
        """[n, t] as verl has it, nested."""
        masks = zip(self.batch.mask, self.responses, strict=True)
        return nested([mask[: len(response)].long() for mask, response in masks])


def nested(rows: Sequence[Tensor]) -> Tensor:
    """Rows of any length."""
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


@cache
def given() -> Given:
    """Ragged rollouts in groups of four, of one only three; the model wrote them, likely and unlikely tokens in turn.

    Some have tokens in the middle that the loss must not see.
    """
    generator, model = torch.Generator().manual_seed(SEED), embedded()
    lengths = torch.randint(1, LENGTH + 1, (GROUPS * SIZE,), generator=generator).tolist()
    prompts, responses = [], []
    for row, length in enumerate(lengths):
        prompt = [row // SIZE + i for i in range(3 + row // SIZE % 3)]
        response: list[int] = []
        for t in range(length):
            logits = model(torch.tensor([[*prompt, *response]])).logits[0, -1, :WRITABLE]
            unsure = (logits / 4).softmax(0).multinomial(1, generator=generator)
            response.append(int(logits.argmax() if (row + t) % 2 else unsure))
        prompts.append(prompt)
        responses.append([*response[:-1], END] if length < LENGTH else response)
    n, length = len(lengths), torch.tensor(lengths)
    position = torch.arange(LENGTH)
    written = (torch.arange(n) % 3 == 0)[:, None] & (position >= 2) & (position < 5)
    correct = torch.rand(n, generator=generator).round()
    correct[::SIZE], correct[1::SIZE] = 0.0, 1.0
    present = position < length[:, None]
    batch = TokenBatch(
        mask=present & ~written,
        length=(present & ~written).sum(1),
        writer=writers(present & ~written, present),
        group=torch.arange(n) // SIZE,
        reward=correct,
        rewards=torch.stack([correct, (length % 3).float()], 1),
        correct=correct,
        truncated=length == LENGTH,
        max_length=LENGTH,
        random_key=random_keys(torch.arange(n) // SIZE, LENGTH, 0),
    )
    kept = [row for row in range(n) if row != SIZE - 1]
    return Given([prompts[i] for i in kept], [responses[i] for i in kept], batch.rows(torch.tensor(kept)))


def noisy_weights(count: int) -> list[Weights]:
    """The embedded model's weights, each time a little changed."""
    found = []
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        state = embedded().state_dict()
        found.append({k: v + 0.01 * torch.randn(v.shape, generator=generator) for k, v in state.items()})
    for weights in found:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]  # they are one
    return found


def statistics(model: Any, rollouts: Given, rows: Sequence[int], width: int = LENGTH) -> tuple[Tensor, Tensor]:
    """[n, width] log-probs and entropies of some responses."""
    logp, entropy, _ = _all_statistics(model, rollouts, rows, width)
    return logp, entropy


@torch.no_grad()
def squares(model: Any, rollouts: Given) -> Tensor:
    """[N, T] sums of the squared probabilities of all tokens."""
    _, _, sums = _all_statistics(model, rollouts, range(len(rollouts.responses)), rollouts.batch.mask.shape[1])
    return sums


def _all_statistics(model: Any, rollouts: Given, rows: Sequence[int], width: int) -> tuple[Tensor, ...]:
    values = []
    for row in rows:
        prompt, response = rollouts.prompts[row], rollouts.responses[row]
        logits = model(torch.tensor([[*prompt, *response]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        logp = logits.gather(1, torch.tensor(response)[:, None])[:, 0]
        entropy = -(logits.exp() * logits).sum(-1)
        wide = (0, width - len(response))
        values.append([torch.nn.functional.pad(each, wide) for each in (logp, entropy, (2 * logits).exp().sum(-1))])
    return tuple(torch.stack(list(column)) for column in zip(*values, strict=True))


@cache
def scored(reference_seed: int = 9) -> Given:
    """The rollouts with the log-probs of a reference, of a teacher, and of an engine that is a little off."""
    rollouts, model = given(), embedded()
    everything = range(len(rollouts.responses))
    with torch.no_grad():
        model.load_state_dict(noisy_weights(reference_seed + 1)[reference_seed])
        logp_ref, _ = statistics(model, rollouts, everything)
        logp_teacher, _ = statistics(teacher(), rollouts, everything)
        model.load_state_dict(noisy_weights(1)[0])
        logp, _ = statistics(model, rollouts, everything)
    noise = torch.randn(logp.shape, generator=torch.Generator().manual_seed(1)) / 10
    batch = rollouts.batch.with_fields(logp_ref=logp_ref, logp_sampler=logp + noise)
    return replace(rollouts, batch=batch.with_fields(logp_teacher=logp_teacher))


def teacher() -> Any:
    """The embedded model with weights that no other model here has."""
    model = embedded()
    model.load_state_dict(noisy_weights(12)[11])
    return model


def taught() -> TensorDict:
    """The rollouts as verl's agent loop hands them on, with what its teacher's engine says of each next token."""
    return list_of_dict_to_tensordict(_outputs())


@cache
@torch.no_grad()
def _outputs() -> list[dict[str, Tensor]]:
    rollouts, model, rows = given(), teacher(), []
    for prompt, response, mask in zip(rollouts.prompts, rollouts.responses, rollouts.response_mask, strict=True):
        tokens = [*prompt, *response]
        logp = model(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)
        following = torch.tensor([*tokens[1:], 0])[:, None]
        said = {"teacher_ids": following.int(), "teacher_logprobs": logp.gather(1, following[:-1])}
        said["teacher_logprobs"] = torch.cat([said["teacher_logprobs"], torch.zeros(1, 1)])
        output = AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=response,
            response_mask=mask.tolist(),
            metrics=AgentLoopMetrics(),
            extra_fields=said,
        ).as_dict()
        rows.append({name: output[name] for name in ("prompts", "responses", "response_mask", *said)})
    return rows


class Along:
    """An optimiser that keeps the gradients and moves along given weights instead of following them."""

    def __init__(self, model: Any, weights: Sequence[Weights]) -> None:
        self.model, self.weights, self.gradients = model, weights, list[Tensor]()

    def step(self) -> None:
        self.gradients.append(torch.cat([p.grad.flatten().clone() for p in self.model.parameters()]))
        self.model.load_state_dict(self.weights[len(self.gradients) % len(self.weights)])

    def zero_grad(self) -> None:
        self.model.zero_grad()


def ours(objective: Objective, weights: Sequence[Weights], state: Any = None) -> list[Tensor]:
    """The gradients of a step's updates by the guide's loop, which a test of its own holds to our trainer."""
    rollouts, model = scored(), embedded()
    model.load_state_dict(weights[0])
    along = Along(model, weights)
    learn(
        objective,
        rollouts.batch.with_fields(sum_pi_squared_old=squares(model, rollouts)),
        lambda rows: statistics(model, rollouts, rows.tolist()),
        along,
        minibatches=MINIBATCHES,
        state=state,
    )
    return along.gradients
