"""Which statistics of a step are scored before its updates, by the objective alone."""

from dataclasses import replace

from objectives import SCORED, Loop, Objective, Source, fields_from

CURRENT = fields_from(Source.CURRENT)
"""Fields of the policy as an update meets it."""
POLICY = CURRENT | fields_from(Source.OLD)
"""Fields of a batch that one forward pass of the policy over its rollouts fills."""
OTHERS = fields_from(Source.REFERENCE, Source.TEACHER)
"""Fields that one forward pass of another model, or behind other prompts, fills."""


def step_scoring(
    objective: Objective, minibatches: int, moved: bool, by_engine: bool, sees_entropy: bool
) -> tuple[Loop, frozenset[str], frozenset[str]]:
    """The updates of a step, the fields scored before them, and the old statistics that are the engine's report.

    `moved`: an older policy, which cannot be scored any more, sampled the rollouts. `by_engine`: old log-probs are the
    engine's (`rollout.old_logp=engine`); `sees_entropy`: it reports entropies too. Fields that a plan reads of the
    current policy are scored by the plan itself, see `Loop.is_scored`.
    """
    of_engine = by_engine and not moved
    loop = Loop(objective, minibatches, moved, of_engine)
    needs, reads_entropy = loop.needs, not loop.needs.isdisjoint({"entropy_old", "entropy"})
    reported = frozenset({"logp_old", "entropy_old"} if reads_entropy and sees_entropy else {"logp_old"})
    if moved:
        return loop, needs & OTHERS, reported
    scored = needs & fields_from(*SCORED)
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
