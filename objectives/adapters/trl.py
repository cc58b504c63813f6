"""Any expression of the zoo inside TRL's `GRPOTrainer`.

    ZooGRPOTrainer(model, reward_funcs, objective="stapo+clip_higher", args=GRPOConfig(...), train_dataset=...)

TRL samples, scores, steps, logs and saves; the objective has the rest. A generation of TRL is a rollout step,
`gradient_accumulation_steps` micro-batches of all processes are a mini-batch, `num_iterations` are the passes. Shapes:
N rows of a generation on all processes, M of a mini-batch, w = M / processes; T completion positions.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from trl import GRPOConfig, GRPOTrainer

from objectives import (
    Loop,
    Objective,
    ObjectiveError,
    PartMetrics,
    Plan,
    Step,
    TokenBatch,
    concatenated,
    normalise,
    parse,
    random_keys,
    writers,
)
from objectives.adapters.checkpoint import load_state, save_state
from objectives.adapters.trl_settings import check_peer, check_state, settled

_TOKENS = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
_LOG_PROBS_OF_TRL = (
    ("logp_old", "old_per_token_logps"),
    ("logp_ref", "ref_per_token_logps"),
    ("logp_sampler", "sampling_per_token_logps"),
)
STATISTICS = frozenset({"entropy_old", "entropy", "logp_old", "logp", "logp_sampler"})
"""What an objective may read before the first update that only a forward pass tells: `logp_sampler` because an engine
need not know all of it. TRL has log-probs where a generation is for several updates, but no entropies.
"""


class ZooGRPOTrainer(GRPOTrainer):
    """`GRPOTrainer` with the gradient of an expression of the zoo.

    `correct` names the reward function whose reward is correctness in [0, 1], where there are several and a part reads
    it. A part that refills samples up to `max_refills` times more for a generation, prompts drawn from the data set.
    Raises ObjectiveError for settings that do not go with the objective, and for a TRL that has changed.
    """

    loss_is_scaled_for_ga = True

    def __init__(
        self,
        model: Any,
        reward_funcs: Any,
        objective: str,
        args: GRPOConfig,
        *,
        correct: str | None = None,
        max_refills: int = 10,
        **others: Any,
    ) -> None:
        check_peer()
        self.objective, self.max_refills = parse(objective), max_refills
        args = settled(self.objective, args)
        self.minibatches = args.steps_per_generation // args.gradient_accumulation_steps
        self._loop = Loop(self.objective, self.minibatches)
        self.needs = self._loop.needs
        _check_data(self.objective, others.get("train_dataset"))
        self._check_correct(correct, len(reward_funcs) if isinstance(reward_funcs, list) else 1)
        super().__init__(model, reward_funcs, args, **others)
        check_state(self)
        self._check_correct(correct, len(self.reward_func_names))  # TRL adds the `get_reward` of environments
        if self._is_vlm:
            raise ObjectiveError("ZooGRPOTrainer trains on text only, but this model has images")
        if correct is not None and correct not in self.reward_func_names:
            raise ObjectiveError(f"correct={correct} is not one of {', '.join(self.reward_func_names)}")
        self._correct = 0 if correct is None else self.reward_func_names.index(correct)
        self._controllers: Mapping[str, Mapping[str, float]] = {}
        self._refills = 0
        self._rewards: Tensor
        self._cut: list[bool]
        self._tokens: Mapping[str, Tensor] | None = None
        self._rollout_step: Step
        self._plan: Plan
        self._sums: PartMetrics

    def _check_correct(self, correct: str | None, reward_functions: int) -> None:
        if reward_functions > 1 and correct is None and "correct" in self.needs:
            raise ObjectiveError(f"objective={self.objective} reads correctness: name the reward function by correct=")

    # ---- once per generation -------------------------------------------------------------------------------------

    def _calculate_rewards(self, *arguments: Any, **options: Any) -> Tensor:
        """[n, functions] on all processes; TRL hands on nothing but the advantages that it makes of them."""
        self._rewards = super()._calculate_rewards(*arguments, **options)
        return self._rewards

    def _tool_call_loop(self, *arguments: Any, **options: Any) -> Any:
        """Records the rows [n] that end in a call without an answer: TRL drops answers that do not fit, silently."""
        made = super()._tool_call_loop(*arguments, **options)
        self._cut = [self._lacks_an_answer(messages) for messages in made[1]]
        return made

    def _lacks_an_answer(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        turns = sum(message["role"] == "assistant" for message in messages)
        return bool(messages[-1].get("tool_calls")) and turns <= self.max_tool_calling_iterations

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """The micro-batch that is next, after sampling or planning where it is the first one; groups stay together."""
        if not self.model.training:
            return super()._prepare_inputs(generation_batch)
        window = self.args.gradient_accumulation_steps
        number = self._step % (self.args.steps_per_generation * self.num_iterations)
        if number == 0 or self._tokens is None:
            self._collect(generation_batch)
        update, part = divmod(number, window)
        if part == 0:
            self._make_plan(update)
        size = self.args.per_device_train_batch_size
        rows = slice(part * size, (part + 1) * size)
        tokens = self._own_tokens(update % self.minibatches)
        return {**{name: values[rows] for name, values in tokens.items()}, "rows": rows}

    @torch.no_grad()
    def _collect(self, examples: Sequence[dict[str, Any]]) -> None:
        """Samples a generation and prepares it."""
        rollouts = self._sampled_full(examples)
        self._tokens, batch = rollouts.tokens, rollouts.batch
        known = {"logp_old", "logp", "logp_sampler"} if batch.logp_old is not None else set()
        if self.needs & STATISTICS - known:
            parts = [self._statistics(number) for number in range(self.minibatches)]
            logp, entropy = (torch.cat(values) for values in zip(*parts, strict=True))
            batch = batch.with_fields(logp_old=logp, entropy_old=entropy)
        if batch.logp_old is not None:
            reported = batch.logp_old if batch.logp_sampler is None else batch.logp_sampler
            reported = torch.where(reported.isnan(), batch.logp_old, reported)  # an engine may not know some
            batch = batch.with_fields(logp_sampler=reported)
        self._rollout_step = self._loop.begin(batch, self._controllers)
        self._controllers = self._rollout_step.prepared.state

    def _sampled_full(self, examples: Sequence[dict[str, Any]]) -> "_Rollouts":
        """The rollouts of a generation; with a part that refills, until there are enough groups that it keeps.

        Raises ObjectiveError if `max_refills` rounds more do not do.
        """
        wanted = self.args.generation_batch_size // self.num_generations
        rounds, sampled = [self._sample(examples, 0)], wanted
        while (missing := wanted - (kept := sum(r.groups for r in rounds))) > 0:
            if len(rounds) > self.max_refills:
                raise ObjectiveError(
                    f"objective={self.objective}: of {sampled} prompts only {kept} gave groups to learn from, after "
                    f"max_refills={self.max_refills} refills; raise it, or choose prompts of a fitting difficulty"
                )
            count = self._refill_size(min(wanted, math.ceil(missing * sampled / max(1, kept))))
            rounds.append(self._sample(self._further_examples(count), sampled))
            sampled += count
        if self.objective.refills:
            self._metrics["train"]["groups_dropped"].append(1 - kept / sampled)
        return _joined(rounds).rows(slice(self.args.generation_batch_size))

    def _sample(self, examples: Sequence[dict[str, Any]], first_group: int) -> "_Rollouts":
        """Samples and scores this process's share of a round; the rollouts of all processes that are worth keeping."""
        self._cut = [False] * len(examples)
        made, device = self._generate_and_score_completions(examples), self.accelerator.device
        tokens = {name: self._everywhere(made[name], left=name.startswith("prompt")) for name in _TOKENS}
        present, rewards = tokens["completion_mask"].bool(), self._rewards
        group = torch.arange(len(present), device=device) // self.num_generations
        last = tokens["completion_ids"].gather(1, (present.sum(1) - 1).clamp(min=0)[:, None])[:, 0]
        ends = torch.tensor([*self.eos_token_ids, self._tokenizer.pad_token_id], device=device)
        cut = self.accelerator.gather(torch.tensor(self._cut, device=device))
        scored = ~rewards.isnan().all(1)
        whole = scored.view(-1, self.num_generations).all(1).repeat_interleave(self.num_generations)
        chosen = present & self._everywhere(made["tool_mask"]).bool() if "tool_mask" in made else present
        log_probs: dict[str, Any] = {
            field: self._everywhere(made[name]) for field, name in _LOG_PROBS_OF_TRL if name in made
        }
        batch = TokenBatch(
            mask=chosen & whole[:, None],  # a group without rewards is no part of the batch
            length=chosen.sum(1),
            writer=writers(chosen, present),
            group=first_group + group,
            reward=(rewards * self.reward_weights.to(device)).nansum(1),
            rewards=self._rewards_apart(whole),
            reward_weights=tuple(self.reward_weights.tolist()),
            correct=self._correctness(whole),
            truncated=cut | ~torch.isin(last, ends),
            max_length=self.max_completion_length,
            random_key=random_keys(
                first_group + group, chosen.shape[1], seed=(self.args.seed << 32) + self.state.global_step
            ),
            **log_probs,
        )
        if not self.objective.refills:
            return _Rollouts(tokens, batch)
        selected = self.objective.select(batch)
        group = selected.require("group", "refills")
        kept = torch.isin(group, group[selected.require("selected", "refills")]) & whole
        return _Rollouts(tokens, selected).rows(kept)

    def _rewards_apart(self, whole: Tensor) -> Tensor:
        """Rewards [N, functions], with 0 where a function gave None, as in TRL.

        Raises ObjectiveError if the objective compares rewards in a group that a function scores only in part.
        """
        silent = self._rewards.isnan().view(-1, self.num_generations, self._rewards.shape[1])
        some = silent.any(1) & ~silent.all(1) & whole.view(-1, self.num_generations)[:, :1]
        if "rewards" in self.needs and some.any():
            name = self.reward_func_names[int(some.any(0).nonzero()[0])]
            raise ObjectiveError(
                f"objective={self.objective} compares the rewards of each function in a group, but {name} gave None "
                "for some completions of one: have it give a number for all of them, or None"
            )
        return self._rewards.nan_to_num()

    def _correctness(self, whole: Tensor) -> Tensor:
        correct, name = self._rewards[:, self._correct], self.reward_func_names[self._correct]
        if "correct" in self.needs and (correct.isnan() & whole).any():
            raise ObjectiveError(
                f"objective={self.objective} reads correctness, but {name} gave None for completions that others "
                "score: have it give a number for all of them, or name another function by correct="
            )
        correct = correct.nan_to_num()
        if "correct" in self.needs and ((correct < 0) | (correct > 1)).any():
            raise ObjectiveError(
                f"objective={self.objective} reads correctness in [0, 1], but {name} gave {correct.min():g} to "
                f"{correct.max():g}: name by correct= a reward function that says it"
            )
        return correct

    def _refill_size(self, count: int) -> int:
        """`count` rounded up so that all processes have the same number of rows."""
        unit = self.accelerator.num_processes // math.gcd(self.accelerator.num_processes, self.num_generations)
        return math.ceil(count / unit) * unit

    def _further_examples(self, count: int) -> list[dict[str, Any]]:
        """The share of this process in `count` prompts drawn from the data set, each as often as TRL repeats it."""
        draw = random.Random(f"refill {self._refills} of seed {self.args.seed}")
        drawn = draw.choices(range(len(self.train_dataset)), k=count)
        rows = [index for index in drawn for _ in range(self.num_generations)]
        size = len(rows) // self.accelerator.num_processes
        first = self.accelerator.process_index * size
        self._refills += 1
        return [dict(self.train_dataset[index]) for index in rows[first : first + size]]

    def _everywhere(self, values: Tensor, left: bool = False) -> Tensor:
        """[n, t] of this process -> [N, T] of all, one after the other, padded on the `left` or on the right."""
        return self.accelerator.gather(self.accelerator.pad_across_processes(values, dim=1, pad_first=left))

    # ---- once per optimiser step ---------------------------------------------------------------------------------

    @torch.no_grad()
    def _make_plan(self, number: int) -> None:
        """Plans an update on all processes alike and keeps this process's rows of it."""
        size, device = self.args.generation_batch_size // self.minibatches, self.accelerator.device
        plan = self._rollout_step.plan(
            number,
            lambda: self._statistics(number % self.minibatches),
            lambda: torch.arange(size, device=device) // self.args.per_device_train_batch_size,
        )
        self._plan = plan.rows(self._share(0, size), plan.batch.mask.shape[1])
        self._sums = PartMetrics(self.objective, device)
        self._sums.add_plan(self._plan)

    def _share(self, first: int, size: int) -> slice:
        """The rows of this process among `size` rows of all of them."""
        count = size // self.accelerator.num_processes
        first += self.accelerator.process_index * count
        return slice(first, first + count)

    def _own_tokens(self, number: int) -> dict[str, Tensor]:
        """[w, ...] this process's rows of a mini-batch."""
        assert self._tokens is not None
        size = len(self._tokens["prompt_ids"]) // self.minibatches
        return {name: values[self._share(number * size, size)] for name, values in self._tokens.items()}

    @torch.no_grad()
    def _statistics(self, number: int) -> tuple[Tensor, Tensor]:
        """[M, T] log-probs and entropies of a mini-batch under the policy as it is now, on all processes."""
        local = self._own_tokens(number)
        logp, entropy, _ = self._forward(self.model, local, self.args.per_device_train_batch_size)
        return self.accelerator.gather(logp), self.accelerator.gather(entropy)

    # ---- once per micro-batch ------------------------------------------------------------------------------------

    def _compute_loss(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        """The part of a micro-batch in its mini-batch's loss; data-parallel engines average, hence the factor."""
        rows: slice = inputs["rows"]
        logp, entropy, auxiliary = self._forward(model, inputs)
        loss: Tensor = self.objective.loss(self._plan, rows, logp, entropy)
        self._count(rows, logp.detach(), entropy.detach(), loss.detach())
        loss = loss * self.accelerator.num_processes
        if self.aux_loss_enabled:
            loss = loss + self.router_aux_loss_coef * auxiliary / self.args.gradient_accumulation_steps
        return loss

    @torch.no_grad()
    def _count(self, rows: slice, logp: Tensor, entropy: Tensor, loss: Tensor) -> None:
        """Counts a micro-batch, and logs the mini-batch with its last one; the loss itself is logged by TRL."""
        part = self._plan.rows(rows, logp.shape[1])
        self._sums.add_rows(part, logp, loss)
        self._sums.add_kl(part, logp)
        self._sums.sums["entropy"] += entropy[part.batch.mask].sum()
        if rows.stop == len(self._plan.batch.mask):
            for name, value in normalise(self._sums.totals(self.accelerator.reduce)).items():
                if name != "loss":
                    self._metrics["train"][name].append(value)

    def _forward(self, model: Any, tokens: Mapping[str, Tensor], size: int | None = None) -> tuple[Tensor, Tensor, Any]:
        """[n, T] log-probs and entropies of completions at the sampling temperature, and the experts' balance."""
        logp, entropy, auxiliary = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([tokens["prompt_ids"], tokens["completion_ids"]], 1),
            torch.cat([tokens["prompt_mask"], tokens["completion_mask"]], 1),
            tokens["completion_ids"].shape[1],
            size,
            compute_entropy=True,
            compute_aux_loss=self.aux_loss_enabled,
        )
        return logp.float(), entropy.float(), auxiliary

    def prediction_step(self, model: Any, inputs: Any, *_: Any, **__: Any) -> tuple[None, None, None]:
        """Samples and scores; an objective's loss says nothing about a model, so that there is no `eval_loss`."""
        self._prepare_inputs(inputs)
        return None, None, None

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if self.args.should_save:
            folder = Path(self._get_output_dir(trial=trial), f"checkpoint-{self.state.global_step}")
            save_state(folder, self.objective, refills=self._refills, controllers=self._controllers)
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            saved = load_state(Path(checkpoint), self.objective)
            self._controllers, self._refills = saved["controllers"], saved["refills"]


@dataclass(frozen=True)
class _Rollouts:
    """Rollouts of all processes, the rows of a group side by side: what the model reads, and what objectives do."""

    tokens: Mapping[str, Tensor]
    batch: TokenBatch

    @property
    def groups(self) -> int:
        """How many prompts there are."""
        return len(self.batch.require("group", "refills").unique())

    def rows(self, index: Tensor | slice) -> "_Rollouts":
        """Some of the rows."""
        return _Rollouts({name: values[index] for name, values in self.tokens.items()}, self.batch.rows(index))


def _joined(rounds: Sequence[_Rollouts]) -> _Rollouts:
    tokens = {name: _together([r.tokens[name] for r in rounds], name.startswith("prompt")) for name in _TOKENS}
    return _Rollouts(tokens, concatenated([r.batch for r in rounds]))


def _together(values: Sequence[Tensor], left: bool = False) -> Tensor:
    """Rows of all, padded to the widest."""
    width = max(value.shape[1] for value in values)
    return torch.cat([pad(v, (width - v.shape[1], 0) if left else (0, width - v.shape[1])) for v in values])


def _check_data(objective: Objective, data: Any) -> None:
    if objective.refills and data is not None and not hasattr(data, "__len__"):
        raise ObjectiveError(
            f"objective={objective} draws further prompts, which a streamed train_dataset cannot give: "
            "take one that is not streamed, or add -dynamic_sampling"
        )
