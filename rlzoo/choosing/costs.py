"""What the trainer calculates for an objective, as the objective itself says."""

from objectives import Objective

COSTS = {
    "logp_ref": "a frozen reference model, and a forward of it per step",
    "logp_teacher": "a teacher, and a forward of it per step",
    "logp_prompt": "a forward of the prompts per step",
    "logp_old": "a scoring forward per step (none if a step makes one update, or with rollout.old_logp=engine)",
    "sum_pi_squared_old": "sums of squared probabilities at rollout time, from the scoring forward",
    "entropy_old": "entropies at rollout time, from the scoring forward",
}
"""Field of the batch -> what it takes to have it."""


def costs(objective: Objective) -> list[str]:
    """What it takes beyond one forward and backward over the rollouts."""
    lines = [f"{objective.pass_count} update pass{'es' * (objective.pass_count > 1)} over the rollouts of a step"]
    lines += [text for field, text in COSTS.items() if field in objective.needs]
    if objective.reads_current:
        lines.append("a forward without gradient before each update once the policy has moved, for current statistics")
    if objective.refills:
        lines.append("further rollouts in place of the groups that are dropped")
    if objective.needs_entropy_gradient:
        lines.append("the gradient of the full-vocabulary entropy")
    return lines
