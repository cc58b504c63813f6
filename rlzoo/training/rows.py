"""The rows of a step, the same on every rank: gathering, which rank trains which, their log-probs and metrics."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor

from objectives import Objective, PartMetrics, Plan, Prepared, TokenBatch, k3, normalise
from rlzoo.config import RolloutConfig
from rlzoo.errors import UserError
from rlzoo.experiment.experiment import Experiment, step_seed
from rlzoo.model.layout import Responses, Work, assign_minibatches, following, to_device
from rlzoo.model.policy import Policy, TokenStats
from rlzoo.model.sharding import resharded
from rlzoo.rollout.base import Rollouts, Sampling
from rlzoo.rollout.sampler import GradedRollouts, Sampler, uneven_rewards
from rlzoo.tasks.base import Problem

# ---- what ranks sample and hear of each other ------------------------------------------------------------------------


def sampling_of(rollout: RolloutConfig, tokens: int) -> Sampling:
    """How up to `tokens` tokens are sampled in training."""
    return Sampling(tokens, rollout.temperature, rollout.top_p, noise=rollout.noise or 0.0)


def round_seed(experiment: Experiment, step: int, number: int) -> int:
    """The seed of a step's round, the same for all ranks."""
    return step_seed(experiment.config.seed, step, f"rollout {number} of process 0")


def problem_share(count: int, accelerator: Accelerator) -> range:
    """Numbers of the problems that this rank takes of `count`, in turn with others.

    All ranks take the same number of them; what that is beyond `count` is thrown away, so that no result depends on it.
    """
    ranks = accelerator.num_processes
    return range(accelerator.process_index, math.ceil(count / ranks) * ranks, ranks)


def gather_rows(tensors: Mapping[str, Tensor], accelerator: Accelerator) -> dict[str, Tensor]:
    """Tensors [n] or [n, t] of each rank's rows -> [N] or [N, T] of all, one rank's behind the other's, on the CPU."""
    if accelerator.num_processes == 1:
        return dict(tensors)

    def everywhere(tensor: Tensor) -> Tensor:
        padded = tensor.to(accelerator.device)
        for dimension in range(tensor.dim()):
            padded = accelerator.pad_across_processes(padded, dimension).to(tensor.dtype)
        gathered: Tensor = accelerator.gather(padded.contiguous())
        return gathered.cpu()

    rows = len(next(iter(tensors.values())))
    is_row = everywhere(torch.ones(rows, dtype=torch.bool))
    return {name: everywhere(tensor)[is_row] for name, tensor in tensors.items()}


def gather_rollouts(graded: GradedRollouts, problems: Sequence[Problem], accelerator: Accelerator) -> GradedRollouts:
    """The responses of all ranks to `problems`, in their order; `graded` are those to this rank's share.

    Of several ranks, texts and outcomes stay with the rank that graded. Raises UserError if ranks have different
    numbers of rewards.
    """
    if accelerator.num_processes == 1:
        return graded
    share, own = problem_share(len(problems), accelerator), graded.rollouts
    kinds = 1 if graded.rewards is None else graded.rewards.shape[1]
    heard = gather_object([(dict(zip(share, own.prompts, strict=True)), kinds)])
    if len(counts := {kinds for _, kinds in heard}) > 1:
        raise UserError(uneven_rewards(counts))
    prompts = {number: prompt for prompts, _ in heard for number, prompt in prompts.items()}
    rewards = {} if graded.rewards is None else {"rewards": graded.rewards}
    groups: Sequence[Mapping[str, Tensor]] = (
        {**own.tensors(), "prompt": torch.tensor(share)[own.prompt]},
        {"reward": graded.reward, "correct": graded.correct, "scored": graded.is_scored, **rewards},
        graded.figures,
        graded.credit,
    )
    whole = [gather_rows(tensors, accelerator) if tensors else {} for tensors in groups]
    number = whole[0]["prompt"]
    order = number.argsort(stable=True)
    order = order[number[order] < len(problems)]
    rollouts, grades, figures, credit = ({name: tensor[order] for name, tensor in each.items()} for each in whole)
    return GradedRollouts(
        problems=problems,
        rollouts=Rollouts([prompts[number] for number in range(len(problems))], **rollouts),
        texts=(),
        outcomes=(),
        reward=grades["reward"],
        correct=grades["correct"],
        rewards=grades.get("rewards"),
        scored=grades["scored"],
        figures=figures,
        credit=credit,
    )


def scored_groups(group: Tensor, graded: GradedRollouts) -> Tensor:
    """[N] bool: rows of groups that are all scored. Others are no part of a batch, as in the adapter for TRL."""
    unscored = group[~graded.is_scored].unique()
    return ~torch.isin(group, unscored)


def rewards_by_function(objective: Objective, graded: GradedRollouts) -> Tensor | None:
    """Rewards [N, K], with 0 for groups that a function does not score.

    Raises UserError if the objective compares rewards in a group that a function scores only in part.
    """
    if graded.rewards is None or not graded.rewards.isnan().any():
        return graded.rewards
    silent, group = graded.rewards.isnan(), graded.rollouts.prompt
    for number in group[scored_groups(group, graded) & silent.any(1)].unique().tolist():
        rows = silent[group == number]
        if "rewards" in objective.needs and (rows.any(0) & ~rows.all(0)).any():
            raise UserError(
                f"task.reward: a function gives None for some responses to {graded.problems[number].id}, and "
                f"objective={objective} compares its rewards in a group. Give a number for all of them, or None."
            )
    return graded.rewards.nan_to_num()


def grade_share(
    rollouts: Rollouts, problems: Sequence[Problem], sampler: Sampler, accelerator: Accelerator
) -> GradedRollouts:
    """Grades this rank's share of responses that every rank has; `problems` are those of the rollouts' prompts."""
    size = len(rollouts.prompt) // len(problems)
    places = [number % len(problems) for number in problem_share(len(problems), accelerator)]
    rows = torch.cat([place * size + torch.arange(size) for place in places])
    tensors = {**rollouts.rows(rows).tensors(), "prompt": torch.arange(len(places)).repeat_interleave(size)}
    own = Rollouts([rollouts.prompts[place] for place in places], **tensors)
    return sampler.graded([problems[place] for place in places], own)


# ---- which rank trains which row -------------------------------------------------------------------------------------


def rank_of_rows(batch: TokenBatch, rollouts: Rollouts, minibatches: int, ranks: int, longest_tree: int) -> Tensor:
    """[N] the rank that trains each row, on the CPU: all have nearly equal work in each mini-batch."""
    if ranks == 1:
        return torch.zeros(len(batch.mask), dtype=torch.long)
    work = Work(
        group=batch.require("group", "balance").tolist(),
        prompt_lengths=[len(prompt) for prompt in rollouts.prompt_tokens()],
        lengths=rollouts.lengths.tolist(),
        learns=may_learn(batch).tolist(),
    )
    return assign_minibatches(work, minibatches, ranks, longest_tree)


def may_learn(batch: TokenBatch) -> Tensor:
    """[N] bool: rows that are selected, of groups whose rewards differ.

    That is what most objectives have a gradient for. One that has it for others too is balanced as well, since both
    kinds are.
    """
    _, group = batch.require("group", "balance").unique(return_inverse=True)
    reward = batch.require("reward", "balance")
    rewards = reward[:, None] if batch.rewards is None else torch.cat([reward[:, None], batch.rewards], 1)
    same = group[:, None].expand_as(rewards)
    first = torch.zeros_like(rewards).scatter_reduce(0, same, rewards, "amin", include_self=False)
    last = torch.zeros_like(rewards).scatter_reduce(0, same, rewards, "amax", include_self=False)
    return batch.require("selected", "balance") & (first != last).any(1)[group]


# ---- what is scored of rows, and how ---------------------------------------------------------------------------------


DUMMY_ROW = torch.zeros(1, dtype=torch.long)
"""Row that a rank without rows of its own calculates, so that sharded models are in step."""


class ForwardPasses:
    """Calculates log-probs of rollouts by a policy or another model, and counts the positions."""

    def __init__(self, accelerator: Accelerator, policy: Policy, temperature: float, budget: int) -> None:
        """`policy` is the one that trains; `budget` are the most token positions of a micro-batch."""
        self.accelerator, self.policy = accelerator, policy
        self.temperature, self.budget = temperature, budget
        self.positions, self.flops = Counter[str](), Counter[str]()

    @torch.no_grad()
    def statistics(
        self,
        policy: Policy,
        rollouts: Rollouts,
        rows: Tensor,
        own: Tensor,
        with_entropy: bool = False,
        with_squares: bool = False,
        observed: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """[M, T] log-probs, entropies and sums of squares of some `rows` [M], on every rank.

        `own` [m] are the places among them of those that this rank calculates.
        """
        logp = torch.zeros(len(rows), rollouts.mask.shape[1], device=self.accelerator.device)
        entropy, squares = (torch.zeros_like(logp) if asked else None for asked in (with_entropy, with_squares))
        for part in self.in_step(self.micro_batches(rollouts, rows, own)):
            stats = self.forward(
                policy,
                rollouts,
                DUMMY_ROW if part is None else rows[part],
                "score",
                with_entropy,
                with_squares,
                observed,
            )
            if part is None:
                continue
            places = to_device(part, logp.device)
            for whole, values in ((logp, stats.logp), (entropy, stats.entropy), (squares, stats.squares)):
                if whole is not None and values is not None:
                    whole[places, : values.shape[1]] = values
        if policy is not self.policy:
            resharded(policy)
        entropy, squares = (None if values is None else self._over_ranks(values) for values in (entropy, squares))
        return self._over_ranks(logp), entropy, squares

    @torch.no_grad()
    def prompt_statistics(self, rollouts: Rollouts, own: Tensor) -> Tensor:
        """[N] mean log-prob of the tokens of each response's prompt but the first, on every rank; 0 if it has one.

        Each prompt is calculated once, as if it were a response to its first token. `own` [n] are this rank's rows.
        """
        device, prompt = self.accelerator.device, rollouts.prompt[own]
        mean = torch.zeros(len(rollouts.prompts), device=device)
        here = torch.tensor([n for n in prompt.unique().tolist() if len(rollouts.prompts[n]) > 1]).long()
        asked = following([rollouts.prompts[n] for n in here.tolist()])
        for rows in self.in_step(self._cut(asked.prompts, asked.lengths)):
            if rows is None:
                self.forward(self.policy, rollouts, DUMMY_ROW, "score")
                continue
            part = asked.rows(rows)
            stats = self.calculate(self.policy, part, "score")
            mean[to_device(here[rows], device)] = stats.logp.sum(1) / to_device(part.lengths, device)
        of_rows = torch.zeros(len(rollouts.prompt), device=device)
        of_rows[to_device(own, device)] = mean[to_device(prompt, device)]
        return self._over_ranks(of_rows)

    def forward(
        self,
        policy: Policy,
        rollouts: Rollouts,
        rows: Tensor,
        phase: str,
        with_entropy: bool = False,
        with_squares: bool = False,
        observed: bool = False,
    ) -> TokenStats:
        """Log-probs and entropies [n, t] of some rows, t their longest response.

        If `observed`, those of the tokens that an environment wrote as well.
        """
        return self.calculate(policy, rollouts.rows(rows).responses(observed), phase, with_entropy, with_squares)

    def calculate(
        self, policy: Policy, responses: Responses, phase: str, with_entropy: bool = False, with_squares: bool = False
    ) -> TokenStats:
        """Statistics of responses, whose positions and operations count for a phase."""
        with self.accelerator.autocast():
            stats: TokenStats = policy(responses, self.temperature, with_entropy, with_squares)
        self.positions[phase] += stats.positions
        passes = 3 if torch.is_grad_enabled() else 1
        model = self.accelerator.unwrap_model(policy)
        self.flops[phase] += int(passes * model.forward_flops(stats.positions, int(responses.mask.sum())))
        return stats

    def micro_batches(self, rollouts: Rollouts, rows: Tensor, places: Tensor) -> list[Tensor]:
        """Some places [m] in `rows` [M], cut into micro-batches."""
        part = rollouts.rows(rows[places])
        return [places[numbers] for numbers in self._cut(part.prompt_tokens(), part.lengths)]

    def _cut(self, prompts: Sequence[Sequence[int]], lengths: Tensor) -> list[Tensor]:
        return self.accelerator.unwrap_model(self.policy).micro_batches(prompts, lengths.tolist(), self.budget)

    def in_step(self, parts: list[Tensor]) -> list[Tensor | None]:
        """The micro-batches, and None as often as another rank has more: sharded models calculate in step."""
        if self.accelerator.num_processes == 1:
            return [*parts]
        count = int(self.accelerator.gather(torch.tensor([len(parts)], device=self.accelerator.device)).max())
        return [*parts, *[None] * (count - len(parts))]

    def _over_ranks(self, values: Tensor) -> Tensor:
        """Values of all rows, out of what each rank has of its own; zeros elsewhere."""
        total: Tensor = self.accelerator.reduce(values, reduction="sum")
        return total


# ---- what is measured of rows, and what each part of the objective acted on -----------------------------------------


class StepMetrics:
    """Sums over the updates of a step and this rank's rows, added up over ranks and divided once at its end.

    For each part: the tokens it touched, their share of the advantage mass, their mean probability and entropy when
    they were sampled, and how many of them each other part touched too. Until the end the sums stay on the device.
    """

    def __init__(self, objective: Objective, rollouts: Rollouts, device: torch.device) -> None:
        self.rollouts, self.device, self.sums = rollouts, device, PartMetrics(objective, device, overlaps=True)
        self.sampler_differences = [torch.zeros(0, dtype=torch.float64, device=device)]
        self.gradient_norm, self.updates = 0.0, 0

    def add_plan(self, plan: Plan, places: Tensor, rows: Tensor) -> None:
        """Counts what the plan touched in this rank's rows [n], which have these `places` [n] in the plan."""
        self.updates += 1
        part = plan.rows(to_device(places, self.device), plan.batch.mask.shape[1])
        self.sums.add_plan(part, self._when_sampled(rows))

    def add_rows(self, part: Plan, rows: Tensor, logp: Tensor, loss: Tensor) -> None:
        """Counts what the clip and its modifiers touched in a micro-batch, part of a plan.

        `rows` [n] are its rows of the step, `logp` [n, t] their log-probs.
        """
        self.sums.add_rows(part, logp, loss, self._when_sampled(rows))

    def _when_sampled(self, rows: Tensor) -> dict[str, Tensor]:
        logp, entropy = (to_device(values[rows], self.device) for values in (self.rollouts.logp, self.rollouts.entropy))
        return {"probability": logp.exp(), "entropy": entropy}

    def add_unmoved(self, rows: Tensor, logp: Tensor) -> None:
        """Compares the unmoved policy, `logp` [n, t] of some rows, with what the sampler said of itself."""
        width = logp.shape[1]
        sampler, mask = (
            to_device(values[rows, :width], self.device) for values in (self.rollouts.logp, self.rollouts.mask)
        )
        self.sampler_differences.append((logp.double() - sampler).where(mask, torch.inf).flatten())

    def add_gradient(self, norm: float) -> None:
        """Counts a gradient's norm before clipping."""
        self.gradient_norm += norm

    def metrics(self, accelerator: Accelerator) -> dict[str, float]:
        """Mean loss and gradient norm per update; for each part the above, means only where it touched something."""
        updates, parts = max(1, self.updates), normalise(self.sums.totals(accelerator.reduce))
        loss = parts.pop("loss", 0.0)
        metrics = {"loss": loss / updates, "gradient_norm": self.gradient_norm / updates, **parts}
        differences = torch.cat(self.sampler_differences)
        everywhere = accelerator.gather(accelerator.pad_across_processes(differences, pad_index=torch.inf))
        return metrics | sampler_difference(everywhere[everywhere.isfinite()])


def rollout_metrics(
    rollouts: Rollouts,
    reward: Tensor,
    examples: Sequence[GradedRollouts],
    batch: Prepared,
    accelerator: Accelerator,
    by_reward: bool = True,
) -> dict[str, float]:
    """Rewards, accuracy, length, entropy and outcomes of a step's rollouts, numbers of controllers.

    `reward` [N] is as graded, NaN in rows that are not scored and so not counted; `examples` are what this rank
    graded. With a reference, also KL(policy || reference) per token, by the estimator k3. `by_reward`: whether groups
    whose rewards are equal teach nothing.
    """
    group, advantage = batch.require("group", "metrics"), batch.advantage
    outcomes = Counter(outcome for graded in examples for outcome in graded.outcomes)
    graded = torch.tensor([outcomes["timed_out"], outcomes["failed"]], dtype=torch.float64, device=accelerator.device)
    timed_out, failed = accelerator.reduce(graded, "sum").tolist()
    with_signal = len(group[(advantage != 0).any(1) | (not by_reward)].unique())
    reward = reward[~reward.isnan()] if not reward.isnan().all() else torch.zeros_like(reward)
    return {
        "reward": reward.mean().item(),
        "reward_deviation": reward.std(correction=0).item(),
        "accuracy": batch.require("correct", "metrics").mean().item(),
        "entropy": rollouts.entropy[rollouts.mask].double().sum().item() / rollouts.mask.sum().item(),
        "length": batch.lengths.float().mean().item(),
        "truncated": batch.require("truncated", "metrics").float().mean().item(),
        "groups_without_signal": 1 - with_signal / len(group.unique()),
        "grading_timed_out": timed_out,
        "grading_failed": failed,
        **_distance_to_reference(batch),
        **{f"state/{part}/{name}": value for part, state in batch.state.items() for name, value in state.items()},
    }


def sampling_metrics(
    sampled: Sequence[GradedRollouts], selected: Sequence[TokenBatch], refills: bool
) -> dict[str, float]:
    """Numbers over all responses of all ranks, those of groups that are dropped among them: figures of an environment.

    If the objective `refills`, also the share of dropped groups and of right responses, and the tokens.
    """
    metrics = dict[str, float]()
    if refills:
        kept = sum(count_groups(batch) for batch in selected)
        metrics["groups_dropped"] = 1 - kept / sum(len(graded.problems) for graded in sampled)
        metrics["sampled/accuracy"] = torch.cat([graded.correct for graded in sampled]).mean().item()
        metrics["sampled/tokens"] = sum(int(graded.rollouts.mask.sum()) for graded in sampled)
    responses = sum(len(graded.reward) for graded in sampled)
    for name in sampled[0].figures:
        metrics[name] = sum(graded.figures[name].sum().item() for graded in sampled) / responses
    return metrics


def count_groups(batch: TokenBatch) -> int:
    """How many groups a batch has rows of."""
    return len(batch.require("group", "metrics").unique())


def staleness(rollouts: Rollouts, updates: int) -> dict[str, float]:
    """The mean number of updates between the policy that sampled a token and the one with `updates` updates.

    And the share of tokens for which it is not 0.
    """
    behind = (updates - rollouts.version)[rollouts.mask].double()
    return {"staleness": behind.sum().item() / len(behind), "stale_tokens": (behind > 0).sum().item() / len(behind)}


def _distance_to_reference(batch: TokenBatch) -> dict[str, float]:
    if batch.logp_ref is None or batch.logp_sampler is None:
        return {}
    difference = (batch.logp_ref - batch.logp_sampler)[batch.mask].double()
    return {"reference/kl": k3(difference).mean().item()} if len(difference) else {}


def sampler_difference(difference: Tensor) -> dict[str, float]:
    """How far the trainer's log-probs of the sampled tokens lie from those of the engine that sampled them.

    `difference` [M] is log p_trainer - log p_sampler in nats. Gives the mean and the largest absolute difference per
    token, and KL(sampler || trainer) per token by the estimator k3 of p_trainer / p_sampler.
    """
    if not len(difference):
        return {}
    return {
        "sampler/difference": difference.abs().mean().item(),
        "sampler/largest_difference": difference.abs().max().item(),
        "sampler/kl": k3(difference).mean().item(),
    }
