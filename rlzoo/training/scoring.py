"""What is scored of the rows of a step, and how: forward passes whose results all ranks know."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import Loop, Objective
from rlzoo.config import Config
from rlzoo.model.flops import forward_flops
from rlzoo.model.layout import Responses, following
from rlzoo.model.policy import Policy, TokenStats
from rlzoo.model.sharding import resharded
from rlzoo.model.transfer import sent
from rlzoo.rollout import engine_class
from rlzoo.rollout.base import Rollouts

CURRENT = frozenset({"logp", "entropy"})
"""Fields of the policy as an update meets it."""
POLICY = CURRENT | {"logp_old", "entropy_old", "sum_pi_squared_old"}
"""Fields of a batch that one forward pass of the policy over its rollouts fills."""
OTHERS = frozenset({"logp_ref", "logp_teacher"})
"""Fields that one forward pass of another model, or behind other prompts, fills."""
DUMMY_ROW = torch.zeros(1, dtype=torch.long)
"""Row that a rank without rows of its own calculates, so that sharded models are in step."""


def step_scoring(config: Config, objective: Objective, moved: bool) -> tuple[Loop, frozenset[str], frozenset[str]]:
    """The updates of a step, the fields scored before them, and the old statistics that are the engine's report.

    `moved`: the rollouts are of an older policy, which cannot be scored any more. Fields that a plan reads of the
    current policy are scored by the plan itself, see `Loop.is_scored`.
    """
    of_engine = not moved and config.rollout.old_logp == "engine"
    loop = Loop(objective, config.train.minibatches_per_step, moved, of_engine)
    needs, reads_entropy = loop.needs, not loop.needs.isdisjoint({"entropy_old", "entropy"})
    sees_entropy = reads_entropy and engine_class(config.rollout.engine).sees_entropy
    reported = frozenset({"logp_old", "entropy_old"} if sees_entropy else {"logp_old"})
    if moved:
        return loop, needs & OTHERS, reported
    scored = needs & (POLICY | OTHERS | {"logp_prompt"})
    if not of_engine:
        return loop, scored, frozenset()
    if needs & (POLICY - CURRENT) <= reported:  # else a pass over all rollouts fills the current ones as well
        lacks_entropy = reads_entropy and not sees_entropy
        loop = replace(loop, scores_first=objective.reads_current and (lacks_entropy or _compares_current(objective)))
        scored -= CURRENT
    return loop, scored - reported, reported


def _compares_current(objective: Objective) -> bool:
    """Whether the plan of a mini-batch compares log-probs of the current policy with old ones or the sampler's."""
    read = [part.needs | part.reads_once_moved for part in objective.parts]
    return any("logp" in fields and not fields.isdisjoint({"logp_old", "logp_sampler"}) for fields in read)


def plans_by_report(loop: Loop, scored: frozenset[str]) -> bool:
    """Whether the first update is planned with what the engine reported in place of the current statistics."""
    return loop.old_of_sampler and not loop.scores_first and not scored & CURRENT


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
            places = sent(part, logp.device)
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
            mean[sent(here[rows], device)] = stats.logp.sum(1) / sent(part.lengths, device)
        of_rows = torch.zeros(len(rollouts.prompt), device=device)
        of_rows[sent(own, device)] = mean[sent(prompt, device)]
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
