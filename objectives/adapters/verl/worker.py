"""The worker's half: verl's `TrainingWorker` with the plan and the loss of an objective.

`train_batch` gets this rank's share of a mini-batch. All data-parallel ranks gather what the objective reads of it,
make the same plan, and number their rows in it; verl cuts the share into micro-batches as it likes, and the loss of
each looks its rows up.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn.functional import pad
from verl.utils import tensordict_utils
from verl.utils.metric import AggregationType, Metric
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker
from verl.workers.utils.padding import no_padding_2_padding

from objectives import Loop, Objective, PartMetrics, Plan, normalise, parse
from objectives.adapters.columns import GROUP, batch_of
from objectives.adapters.verl.rows import LIMIT, columns_in, everywhere, without_columns
from objectives.adapters.verl.settings import MARK

ROW = "zoo_row"
"""The column with the numbers of rows in the plan, -1 for those that only fill up."""


class ZooTrainingWorker(TrainingWorker):
    """`TrainingWorker` with the gradient of the expression behind `rlzoo:` in `actor.policy_loss.loss_mode`."""

    objective: Objective
    _updates = 0
    _minibatches = 1

    def set_loss_fn(self, loss_fn: Any) -> None:
        """Reads the expression: verl hands over its own loss, and the actor's configuration in it."""
        super().set_loss_fn(loss_fn)
        self.objective = parse(loss_fn.keywords["config"].policy_loss.loss_mode.removeprefix(MARK))

    def train_mini_batch(self, data: TensorDict) -> Any:
        """Every update on the rollouts of a step; verl's epochs are the objective's passes."""
        share = tensordict_utils.get(data, "mini_batch_size") // self.engine.get_data_parallel_size()
        self._updates, self._minibatches = 0, len(data) // share
        return super().train_mini_batch(data)

    def train_batch(self, data: TensorDict) -> Any:
        """An optimiser step: the plan over all ranks, then verl's own."""
        plan, rows = self._plan(data, self._updates)
        self._updates += 1
        data = without_columns(data)
        data[ROW] = rows
        tensordict_utils.assign_non_tensor(data, calculate_entropy=self.objective.needs_entropy_gradient)
        self.loss_fn = partial(loss_of, objective=self.objective, plan=plan)
        return super().train_batch(data)

    @torch.no_grad()
    def _plan(self, data: TensorDict, number: int) -> tuple[Plan, Tensor]:
        """The plan of an update, and [n] the numbers of this rank's rows in it."""
        loop, ranks = Loop(self.objective, self._minibatches), self.engine.get_data_parallel_size()
        columns = self._everywhere(columns_in(data))
        real = columns[GROUP] >= 0
        batch = batch_of(columns, number // self._minibatches, tensordict_utils.get(data, LIMIT))

        def statistics() -> tuple[Tensor, Tensor | None]:
            current = self._everywhere(self._current(data))
            wide = {
                name: pad(values, (0, batch.mask.shape[1] - values.shape[1]))[real] for name, values in current.items()
            }
            return wide["log_probs"], wide.get("entropy")

        plan = loop.plan(number, batch, statistics)
        numbers = torch.where(real, real.cumsum(0) - 1, -1)
        return plan, numbers.chunk(ranks)[self.engine.get_data_parallel_rank()].cpu()

    def _everywhere(self, columns: Mapping[str, Tensor]) -> dict[str, Tensor]:
        there = {name: values.to(self.device_name) for name, values in columns.items()}
        return everywhere(there, self.engine.get_data_parallel_group())

    def _current(self, data: TensorDict) -> dict[str, Tensor]:
        """[n, t] log-probs, and entropies if they are read, of this rank's rows under the policy as it is now."""
        config = self.engine_config
        share = without_columns(data)
        tensordict_utils.assign_non_tensor(
            share,
            calculate_entropy="entropy" in self.objective.needs,
            compute_loss=False,
            use_remove_padding=self.model_config.get("use_remove_padding", False),
            use_dynamic_bsz=config.use_dynamic_bsz,
            max_token_len_per_gpu=config.infer_max_token_len_per_gpu,
            micro_batch_size_per_gpu=config.infer_micro_batch_size_per_gpu,
            use_fused_kernels=config.use_fused_kernels,
        )
        with self.engine.eval_mode(disable_auto_offload=True):
            output = self.engine.infer_batch(share)["model_output"]
        names = [name for name in ("log_probs", "entropy") if name in output]
        return {name: no_padding_2_padding(output[name], share).float() for name in names}


class ZooActorRolloutRefWorker(ActorRolloutRefWorker):
    """verl's hybrid worker, whose actor trains as above."""

    actor_worker_cls = ZooTrainingWorker


def loss_of(
    model_output: Mapping[str, Tensor], data: TensorDict, dp_group: Any = None, *, objective: Objective, plan: Plan
) -> tuple[Tensor, dict[str, Metric]]:
    """The part of a micro-batch in its mini-batch's loss, and what the objective did there.

    Data-parallel engines average gradients, and verl averages metrics, hence the factor `dp_size` on both.
    """
    ranks, real = data["dp_size"], data[ROW] >= 0
    rows = data[ROW][real]
    logp, entropy = (
        no_padding_2_padding(model_output[name], data)[real].float() if name in model_output else None
        for name in ("log_probs", "entropy")
    )
    assert logp is not None
    loss = objective.loss(plan, rows, logp, entropy)
    part = plan.rows(rows, logp.shape[1])
    sums = PartMetrics(objective, logp.device)
    sums.add_plan(part, whole=plan)
    sums.add_rows(part, logp.detach(), loss.detach())
    sums.add_kl(part, logp.detach())
    values = normalise(sums.totals(lambda here, _: here))
    values = {"pg_loss" if name == "loss" else name: value for name, value in values.items()}
    return loss * ranks, {name: Metric(AggregationType.SUM, value * ranks) for name, value in values.items()}
