"""The rows of a step, the same on every rank: gathering, which rank trains which, and their log-probs.

An optimiser update takes as long as the rank with the most work. Work is counted in positions of forward passes;
attention between them is left out, as in `rlzoo.model.flops`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor

from objectives import Objective, TokenBatch, whole_groups
from rlzoo.config import RolloutConfig
from rlzoo.errors import UserError
from rlzoo.experiment.experiment import Experiment, step_seed
from rlzoo.model.accelerator import to_device
from rlzoo.model.flops import forward_flops
from rlzoo.model.layout import Responses, Tree, following, grow_sizes, longest_first
from rlzoo.model.policy import Policy, TokenStats
from rlzoo.model.sharding import resharded
from rlzoo.rollout.base import Rollouts, Sampling
from rlzoo.rollout.sampler import GradedRollouts, Sampler, uneven_rewards
from rlzoo.tasks.base import Problem

TRAINING = 3
"""Forward passes that forward and backward of a row cost; scoring costs one."""


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
    """[N, K] with 0 for the groups in which a function has no say.

    Raises UserError for an objective that compares the rewards of a function in a group of which it scores a part.
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


@dataclass(frozen=True)
class Work:
    """What the work on each of n rows depends on."""

    group: Sequence[int]
    """Prompt group of each row; the rows of a group have one prompt."""
    prompt_lengths: Sequence[int]
    lengths: Sequence[int]
    learns: Sequence[bool]
    """Whether it may have a gradient. Other rows are only scored."""

    def rows(self, index: Sequence[int]) -> "Work":
        """The work on some rows."""
        return Work(
            group=[self.group[row] for row in index],
            prompt_lengths=[self.prompt_lengths[row] for row in index],
            lengths=[self.lengths[row] for row in index],
            learns=[self.learns[row] for row in index],
        )

    def trees(self, learning: bool, longest: int) -> list[Tree]:
        """The rows that learn, or the others, as forward passes share prompts among them; the largest first."""
        index = [row for row, learns in enumerate(self.learns) if learns is learning]
        part = self.rows(index)
        trees = grow_sizes(part.group, part.prompt_lengths, part.lengths, longest)
        return [Tree([index[row] for row in tree.rows], tree.size) for tree in trees]


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


def assign_minibatches(work: Work, minibatches: int, ranks: int, longest_tree: int) -> Tensor:
    """[N] int64 on the CPU: the rank of each row of a batch, chosen for each mini-batch by itself."""
    rank_of = torch.zeros(len(work.group), dtype=torch.long)
    for rows in whole_groups(torch.tensor(work.group), minibatches):
        rank_of[rows] = torch.tensor(assign_rows(work.rows(rows.tolist()), ranks, longest_tree), dtype=torch.long)
    return rank_of


def assign_rows(work: Work, ranks: int, longest_tree: int) -> list[int]:
    """The rank of each row of a mini-batch.

    Responses that can share their prompt in a forward pass of at most `longest_tree` positions stay together, in parts
    as small as the fullest rank is better off with.
    """
    halves = [longest_tree >> times for times in range(longest_tree.bit_length())]
    assigned = [_assign_trees(work, ranks, longest) for longest in (*halves, 0)]  # 0: each response has its own prompt
    return min(assigned, key=lambda deal: deal[1])[0]


def _assign_trees(work: Work, ranks: int, longest: int) -> tuple[list[int], int]:
    """The rank of each row, and what the fullest rank has to do, in positions of a forward pass.

    The rows that learn come first, then the others on top, so that training and scoring are both balanced.
    """
    rank_of, positions, fullest = [0] * len(work.group), [0] * ranks, list[int]()
    for learning in (True, False):
        trees = work.trees(learning, longest)
        for tree, rank in zip(trees, longest_first([tree.size for tree in trees], positions), strict=True):
            positions[rank] += tree.size
            for row in tree.rows:
                rank_of[row] = rank
        fullest.append(max(positions))
    trained, scored = fullest
    return rank_of, TRAINING * trained + scored


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
        self.flops[phase] += int(passes * forward_flops(model, stats.positions, int(responses.mask.sum())))
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
