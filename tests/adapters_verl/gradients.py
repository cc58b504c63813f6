"""Run by test_gradients.py in one process and in two: the gradients of expressions, verl's FSDP2 engine against ours.

`python -m tests.adapters_verl.gradients EXPRESSION...`, or the same under torchrun; prints a line of JSON for each.
The device is `examples.verl_cpu`'s stand-in; worker, engine, sharding, micro-batches and metrics are verl's.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

os.environ["VERL_USE_EXTERNAL_MODULES"] = "examples.verl_cpu"

import torch
import torch.distributed
from tensordict import TensorDict
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor
from verl.utils import tensordict_utils

from benchmarks.normalisation.in_verl import ALONE, worker
from objectives import Objective, TokenBatch, parse
from objectives.adapters.columns import columns_of
from objectives.adapters.verl.rows import LIMIT, spread
from objectives.adapters.verl.teacher import teacher_logp
from objectives.adapters.verl.worker import ZooTrainingWorker
from tests.adapters_verl.rollouts import (
    END,
    LENGTH,
    MINIBATCHES,
    Given,
    Weights,
    embedded,
    nested,
    noisy_weights,
    ours,
    scored,
    squares,
    statistics,
    taught,
)

CUTS: Mapping[str, Mapping[str, Any]] = {
    "2 rows": {"use_dynamic_bsz": False, "micro_batch_size_per_gpu": 2, "infer_micro_batch_size_per_gpu": 3},
    "6 rows": {"use_dynamic_bsz": False, "micro_batch_size_per_gpu": 6, "infer_micro_batch_size_per_gpu": 6},
    "40 tokens": {"use_dynamic_bsz": True, "max_token_len_per_gpu": 40, "infer_max_token_len_per_gpu": 50},
}
"""How verl cuts a share of a mini-batch into micro-batches."""


class Along:
    """Stands in the place of the engine's optimiser step: keeps the gradient and moves along given weights."""

    def __init__(self, module: Any, weights: Sequence[Weights]) -> None:
        self.module, self.weights, self.gradients = module, weights, list[Tensor]()
        self.load(0)

    def load(self, number: int) -> None:
        for name, parameter in self.module.named_parameters():
            value = self.weights[number % len(self.weights)][name]
            if isinstance(parameter, DTensor):
                value = distribute_tensor(value.clone(), parameter.device_mesh, parameter.placements)
            parameter.data.copy_(value)

    def __call__(self) -> float:
        gradients = [parameter.grad for parameter in self.module.parameters()]
        whole = [each.full_tensor() if isinstance(each, DTensor) else each for each in gradients]
        self.gradients.append(torch.cat([each.flatten().clone() for each in whole]))
        self.load(len(self.gradients))
        return 1.0


def prepared(objective: Objective, weights: Weights) -> Sequence[TokenBatch]:
    """The passes of a step whose old policy has these weights."""
    rollouts, model = scored(), embedded()
    model.load_state_dict(weights)
    with torch.no_grad():
        logp, entropy = statistics(model, rollouts, range(len(rollouts.responses)))
    batch = rollouts.batch.with_fields(logp_old=logp, entropy_old=entropy, logp=logp, entropy=entropy, on_policy=True)
    batch = batch.with_fields(sum_pi_squared_old=squares(model, rollouts), logp_teacher=None)
    if "logp_teacher" in objective.needs:
        everything = torch.ones(len(batch.mask), dtype=torch.bool)
        batch = batch.with_fields(logp_teacher=teacher_logp(taught(), everything, objective))
    return objective.passes(objective.prepare(batch))


def share(rollouts: Given, columns: Mapping[str, Tensor], rank: int, ranks: int) -> TensorDict:
    """A rank's rows of each mini-batch as verl's data; the mini-batch with a group of three is filled up."""
    filled = Given([*rollouts.prompts, [END]], [*rollouts.responses, [END]], rollouts.batch)
    n = len(filled.prompts)
    real = torch.arange(n) < n - 1
    mask = nested([*rollouts.response_mask.unbind(), torch.zeros(1, dtype=torch.long)])
    everything = spread(columns, real, mask)
    order = [n - 1, *range(n - 1)]  # the first group lacks a response
    rows = [row for part in torch.tensor(order).chunk(MINIBATCHES) for row in part.chunk(ranks)[rank].tolist()]
    ids = [torch.tensor([*filled.prompts[i], *filled.responses[i]]) for i in rows]
    own = {
        name: nested([values[i] for i in rows]) if values.is_nested else values[rows]
        for name, values in everything.items()
    }
    data = {
        "input_ids": nested(ids),
        "position_ids": nested([torch.arange(len(each)) for each in ids]),
        "prompts": nested([torch.tensor(filled.prompts[i]) for i in rows]),
        "responses": nested([torch.tensor(filled.responses[i]) for i in rows]),
        "response_mask": nested([mask[i] for i in rows]),
        "loss_mask": nested([mask[i] for i in rows]),
    }
    made = TensorDict({**data, **own}, batch_size=len(rows))
    tensordict_utils.assign_non_tensor(made, temperature=1.0, mini_batch_size=n // MINIBATCHES, global_batch_size=n)
    tensordict_utils.assign_non_tensor(made, **{LIMIT: LENGTH})
    return made


def theirs(own: ZooTrainingWorker, objective: Objective, weights: Sequence[Weights], cut: str) -> list[Tensor]:
    """The gradients of a step's updates inside verl."""
    along = Along(own.engine.module, weights)
    own.objective, own.engine.optimizer_step = objective, along
    for name, value in CUTS[cut].items():
        object.__setattr__(own.engine_config, name, value)
    columns = columns_of(objective, prepared(objective, weights[0]))
    data = share(scored(), columns, torch.distributed.get_rank(), torch.distributed.get_world_size())
    tensordict_utils.assign_non_tensor(data, epochs=objective.pass_count)
    own.train_mini_batch(data)
    return along.gradients


def main(expressions: Sequence[str]) -> None:
    """Prints for each expression the largest relative difference by cut, and the gradients' norms."""
    torch.set_num_threads(1)
    for name, usual in ALONE.items():
        os.environ.setdefault(name, usual)
    ranks = int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=ranks)
    own, weights = worker(ZooTrainingWorker), noisy_weights(5)
    for expression in expressions:
        objective = parse(expression)
        one = ours(objective, weights)
        found = {}
        for cut in CUTS:
            other = theirs(own, objective, weights, cut)
            assert len(one) == len(other), (expression, len(one), len(other))
            found[cut] = max(float((a - b).norm() / a.norm()) for a, b in zip(one, other, strict=True))
        if torch.distributed.get_rank() == 0:
            norms = [float(gradient.norm()) for gradient in one]
            measured = {"expression": expression, "differences": found, "norms": norms}
            print(json.dumps({"processes": ranks, **measured}), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
