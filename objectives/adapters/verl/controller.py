"""The controller's half: verl's synchronous trainer with an objective's rewards, selection, advantages and passes.

A step of verl is a rollout step, `ppo_mini_batch_size` prompts are a mini-batch, `ppo_epochs` the passes. Shapes: n
rows of verl's batch, padding rows included; T response positions.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
import torch
import transfer_queue
from omegaconf import DictConfig
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions
from verl.workers.utils.padding import response_from_nested

from objectives import Loop, Objective, ObjectiveError, TokenBatch, parse, random_keys, writers
from objectives.adapters.checkpoint import load_state, save_state
from objectives.adapters.columns import columns_of
from objectives.adapters.verl.rows import LIMIT, padded, spread
from objectives.adapters.verl.seams import PEER
from objectives.adapters.verl.settings import REWARD_KEYS, expression_in, reward_columns, settled
from objectives.adapters.verl.teacher import FIELD, IDS, LOGP, check_vocabulary, is_verls, teacher_logp
from objectives.adapters.verl.worker import ZooActorRolloutRefWorker

SQUARES = "zoo_sum_pi_squared"
_LOG_PROBS = {
    "logp_old": "old_log_probs",
    "entropy_old": "entropy",
    "logp_ref": "ref_log_prob",
    "logp_sampler": "rollout_log_probs",
    "sum_pi_squared_old": SQUARES,
}
_OUTCOMES = ("response_mask", "responses", "rm_scores", "extra_fields")
_ACTORS = (Role.Actor, Role.ActorRollout, Role.ActorRolloutRef)


class ZooPPOTrainer(PPOTrainerSync):
    """`PPOTrainerSync` with the gradient of the expression behind `rlzoo:` in `actor.policy_loss.loss_mode`.

    Raises ObjectiveError for settings that do not go with the objective.
    """

    def __init__(self, config: DictConfig) -> None:
        config = settled(config)
        self.objective = parse(expression_in(config) or "")
        self._controllers: Mapping[str, Mapping[str, float]] = {}
        self._lost = 0
        super().__init__(config)

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in _ACTORS:
            if role in self.role_worker_mapping:
                self.role_worker_mapping[role] = ray.remote(ZooActorRolloutRefWorker)

    def _init_tokenizer(self) -> None:
        super()._init_tokenizer()
        if is_verls(self.objective, self.config):
            check_vocabulary(self.config, self.tokenizer)
        generation = omega_conf_to_dataclass(self.config.actor_rollout_ref.model).generation_config
        ends = getattr(generation, "eos_token_id", None) or []
        ends = [ends] if isinstance(ends, int) else ends
        self._outcomes = Outcomes(
            self.objective,
            frozenset({self.tokenizer.eos_token_id, *ends}),
            self.config.data.max_response_length,
            *reward_columns(self.config),
        )

    # ---- once per rollout step -----------------------------------------------------------------------------------

    def _build_replay_buffer(self) -> ReplayBuffer:
        buffer = super()._build_replay_buffer()
        if self.objective.refills:
            for name in ("finished_keys", "partitions", "_dapo_classification_cache"):
                if not hasattr(buffer, name):
                    raise PEER.changed(f"ReplayBuffer has no {name}")
            buffer._dapo_filtered_keys = self._dropped
        return buffer

    def _dropped(self, partition_id: str) -> tuple[set[str], Counter[float]]:
        """Finished prompts without a selected response, and the number of such prompts by mean reward.

        Raises ObjectiveError once a step has lost more of them than `filter_groups.max_num_gen_batches` batches have;
        0 is no limit.
        """
        if partition_id == "val":
            return set(), Counter()
        buffer = self.replay_buffer
        finished, known = buffer.finished_keys[partition_id], buffer._dapo_classification_cache[partition_id]
        for uid in known.keys() - finished:
            del known[uid]
        keys = [key for key in buffer.partitions[partition_id] if _group_of(key) in finished - known.keys()]
        if keys:
            data = transfer_queue.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=[*_OUTCOMES])
            batch = self._with_lots(self._outcomes.batch(data, keys))
            batch = self.objective.select(batch)
            selected, reward = (batch.require(name, "refills") for name in ("selected", "reward"))
            for uid in {_group_of(key) for key in keys}:
                rows = torch.tensor([_group_of(key) == uid for key in keys])
                known[uid] = None if selected[rows].any() else float(reward[rows].mean())
                self._lost += known[uid] is not None
            most = self.config.algorithm.filter_groups.max_num_gen_batches
            if 0 < most * self.config.data.train_batch_size < self._lost:
                raise ObjectiveError(
                    f"objective={self.objective}: {self._lost} prompts of this step gave nothing to learn from; raise "
                    f"algorithm.filter_groups.max_num_gen_batches={most}, or choose prompts of a fitting difficulty"
                )
        dropped = {uid: value for uid, value in known.items() if value is not None}
        return set(dropped), Counter(dropped.values())

    def prepare_step(self) -> dict[str, Any]:
        self._lost = 0
        return super().prepare_step()

    def _balance_batch(self, batch: Any, metrics: dict[str, Any], **_: Any) -> Any:
        """Orders the rows such that every mini-batch is made of whole groups, split evenly over the ranks."""
        workers = self.actor_rollout_wg
        if "actor" not in workers._dispatch_info:
            workers._dispatch_info["actor"] = workers._query_dispatch_info("actor")
        ranks = max(workers._dispatch_info["actor"]) + 1
        groups: dict[str, list[int]] = {}
        for row, key in enumerate(batch.keys):
            groups.setdefault(_group_of(key), []).append(row)
        prompts, responses = self._minibatch
        largest = max(map(len, groups.values()))
        if largest > responses:
            raise ObjectiveError(
                f"a prompt has {largest} trajectories, more than actor_rollout_ref.rollout.n={responses}: an agent "
                "loop that gives several for a response has no objective here"
            )
        size, minibatches = prompts * responses, -(-len(groups) // prompts)
        if len(batch.keys) < minibatches * size:
            batch = upsample_batch_to_divisible_size(batch, minibatches * size, self.tokenizer.eos_token_id)
        lengths = [tag["seq_len"] for tag in batch.tags]
        batch.reorder(dealt([*groups.values()], prompts, size, ranks, lengths))
        return batch

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """The statistics of the rollouts, with sums of squared probabilities where a part reads them."""
        if "sum_pi_squared_old" not in self.objective.needs:
            return super()._compute_old_log_prob(batch, metrics)
        batch.extra_info["calculate_sum_pi_squared"] = True
        scored = super()._compute_old_log_prob(batch, metrics)
        batch.extra_info.pop("calculate_sum_pi_squared")
        data = transfer_queue.kv_batch_get(
            keys=scored.keys, partition_id=scored.partition_id, select_fields=["sum_pi_squared", "response_mask"]
        )
        fields = {SQUARES: response_from_nested(data["sum_pi_squared"], data["response_mask"])}
        return transfer_queue.kv_batch_put(
            keys=scored.keys,
            partition_id=scored.partition_id,
            fields=TensorDict(fields, batch_size=len(scored.keys)),
        )

    @torch.no_grad()
    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Prepares the rollouts of the step: rewards, selection, advantages, weights, passes."""
        wanted = [*_OUTCOMES, *_LOG_PROBS.values(), LOGP, IDS]
        data = transfer_queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=wanted)
        real = learnt_from(batch.keys, batch.tags, self.objective.minimum_group)
        log_probs: dict[str, Any] = {
            field: padded(data[name]).float() for field, name in _LOG_PROBS.items() if name in data
        }
        if FIELD in self.objective.needs:
            log_probs[FIELD] = teacher_logp(data, real, self.objective)
        rollouts = self._outcomes.batch(data, batch.keys).with_fields(**log_probs).rows(real)
        rollouts = self._with_lots(rollouts)
        loop = Loop(self.objective, len(real) // math.prod(self._minibatch))
        if not loop.needs & {"logp_old", "logp"}:
            rollouts = rollouts.with_fields(logp_old=None)  # the ratio is 1, not nearly so
        step = loop.begin(rollouts, self._controllers)
        self._controllers = step.prepared.state
        columns, advantage = columns_of(self.objective, step.passes), step.prepared.advantage
        shown = {"advantages": advantage, "returns": advantage}
        fields = spread({**columns, **shown}, real, data["response_mask"])
        batch = transfer_queue.kv_batch_put(
            keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(fields, batch_size=len(batch.keys))
        )
        batch.extra_info[LIMIT] = rollouts.max_length
        return batch

    def _with_lots(self, rollouts: TokenBatch) -> TokenBatch:
        group, width = rollouts.require("group", "lots"), rollouts.mask.shape[1]
        return rollouts.with_fields(random_key=random_keys(group, width, seed=self.global_steps))

    @property
    def _minibatch(self) -> tuple[int, int]:
        """Prompts of a mini-batch, and responses of a prompt."""
        config = self.config.actor_rollout_ref
        return config.actor.ppo_mini_batch_size, config.rollout.n

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def _save_checkpoint(self) -> None:
        folder = Path(self.config.trainer.default_local_dir, f"global_step_{self.global_steps}")
        save_state(folder, self.objective, controllers=self._controllers)
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.global_steps == 0:
            return
        trainer = self.config.trainer
        latest = Path(trainer.default_local_dir, f"global_step_{self.global_steps}")
        folder = Path(trainer.resume_from_path) if trainer.resume_mode == "resume_path" else latest
        self._controllers = load_state(folder, self.objective)["controllers"]


def learnt_from(keys: Sequence[str], tags: Sequence[Mapping[str, Any]], least: int) -> Tensor:
    """[n] bool: rows that are not padding, of prompts with at least `least` such rows; failed responses have none."""
    real = [not tag.get("is_padding", False) for tag in tags]
    present = Counter(_group_of(key) for key, is_real in zip(keys, real, strict=True) if is_real)
    return torch.tensor([is_real and present[_group_of(key)] >= least for key, is_real in zip(keys, real, strict=True)])


class Outcomes:
    """Reads what responses were worth from verl's data."""

    def __init__(
        self,
        objective: Objective,
        ends: frozenset[int],
        max_length: int,
        reward_keys: Sequence[str] = (),
        reward_weights: tuple[float, ...] | None = None,
    ) -> None:
        self.objective, self.ends, self.max_length = objective, ends, max_length
        self.reward_keys, self.reward_weights = reward_keys, reward_weights

    def batch(self, data: TensorDict, keys: Sequence[str]) -> TokenBatch:
        """Rows [n] with mask, length, group, reward, correct and truncated, and rewards [n, K] where they are read."""
        numbers = {uid: i for i, uid in enumerate(dict.fromkeys(map(_group_of, keys)))}
        last = torch.tensor([int(response[-1]) if len(response) else -1 for response in data["responses"].unbind()])
        length, chosen = data["responses"].offsets().diff(), padded(data["response_mask"]).bool()
        reward = padded(data["rm_scores"]).sum(1).float()
        return TokenBatch(
            mask=chosen,
            length=chosen.sum(1),
            writer=writers(chosen, torch.arange(chosen.shape[1]) < length[:, None]),
            group=torch.tensor([numbers[_group_of(key)] for key in keys]),
            reward=reward,
            rewards=self._rewards(data),
            reward_weights=self.reward_weights,
            correct=self._correctness(data, reward),
            truncated=(length >= self.max_length) & ~torch.isin(last, torch.tensor(sorted(self.ends))),
            max_length=self.max_length,
        )

    def _rewards(self, data: TensorDict) -> Tensor | None:
        """[n, K] the rewards that the objective reads one by one, by the names that the configuration has for them."""
        if "rewards" not in self.objective.needs:
            return None
        extras = _extras(data)
        for key in self.reward_keys:
            if any(key not in each for each in extras):
                raise ObjectiveError(f"{REWARD_KEYS} names {key}, which the reward function's dictionary does not have")
        return torch.tensor([[float(each[key]) for key in self.reward_keys] for each in extras])

    def _correctness(self, data: TensorDict, reward: Tensor) -> Tensor:
        """[n] what the reward function calls `acc`; the reward of a row without it."""
        said = [each.get("acc") for each in _extras(data)]
        pairs = zip(said, reward.tolist(), strict=True)
        correct = torch.tensor([float(earned if acc is None else acc) for acc, earned in pairs])
        if "correct" in self.objective.needs and ((correct < 0) | (correct > 1)).any():
            raise ObjectiveError(
                f"objective={self.objective} reads correctness in [0, 1], but the reward function gave "
                f"{correct.min():g} to {correct.max():g}: have it return a dictionary with score and acc"
            )
        return correct


def _extras(data: TensorDict) -> list[Mapping[str, Any]]:
    """What the reward function said of each response beside its score."""
    return [getattr(each, "data", each).get("reward_extra_info", {}) for each in data["extra_fields"]]


def trainer_for(config: DictConfig) -> PPOTrainerSync:
    """The synchronous trainer, with an objective where the configuration names one."""
    return PPOTrainerSync(config) if expression_in(config) is None else ZooPPOTrainer(config)


def dealt(groups: Sequence[list[int]], prompts: int, size: int, ranks: int, lengths: Sequence[int]) -> list[int]:
    """The order of rows: by rank, then by mini-batch. Long rows are shared evenly among the ranks.

    A mini-batch has at most `prompts` groups and exactly `size` rows. Rows that are in no group are padding.
    """
    fillers = iter(range(sum(map(len, groups)), len(lengths)))
    shares: list[list[int]] = [[] for _ in range(ranks)]
    for first in range(0, len(groups), prompts):
        rows = [row for group in groups[first : first + prompts] for row in group]
        rows += [next(fillers) for _ in range(size - len(rows))]
        work = calculate_workload(torch.tensor([lengths[row] for row in rows]))
        parts = get_seqlen_balanced_partitions(work, ranks, equal_size=True)
        for share, part in zip(shares, parts, strict=True):
            share += [rows[i] for i in part]
    return [row for share in shares for row in share]


def _group_of(key: str) -> str:
    """The prompt of a trajectory: verl's keys are PROMPT_RESPONSE_TRAJECTORY."""
    return key.rsplit("_", 2)[0]
