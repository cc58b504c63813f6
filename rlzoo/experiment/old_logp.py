"""Whether old log-probs may be those that the engine reported: `rollout.old_logp=engine`."""

from objectives import Objective
from rlzoo.config import Config
from rlzoo.errors import UserError
from rlzoo.rollout import engine_class

ENGINE = "rollout.old_logp=engine"


def check_old_logp(objective: Objective, config: Config) -> None:
    """Refuses the engine's where they would change nothing, or are of another distribution. Raises UserError."""
    rollout = config.rollout
    if rollout.old_logp == "policy":
        return
    if rollout.may_be_stale:
        stale = "ahead=1" if rollout.ahead else f"partial_tokens={rollout.partial_tokens}"
        raise UserError(
            f"{ENGINE} has no effect with rollout.{stale}, whose rollouts of older policies have the engine's anyway; "
            f"leave it out"
        )
    if rollout.top_p < 1:
        raise UserError(
            f"{ENGINE}: with rollout.top_p={rollout.top_p:g} the engine's log-probs are those of the nucleus, and the "
            f"policy's of all tokens; set rollout.top_p=1, or rollout.old_logp=policy"
        )
    refuse_comparison(objective, config)
    seen = {"entropy_old"} if engine_class(rollout.engine).sees_entropy else set()
    if not objective.needs & {"logp_old", "logp", "entropy", *seen}:
        raise UserError(
            f"{ENGINE} has no effect: no part of {objective} reads what rollout.engine={rollout.engine} reports in "
            f"place of the policy; leave it out"
        )


def refuse_comparison(objective: Objective, config: Config) -> None:
    """Raises UserError if a part compares old log-probs with the engine's and both are the same."""
    if config.rollout.old_logp == "policy":
        return
    compared = {"logp_old", "logp_sampler"}
    for part in objective.parts:
        if part.needs | part.reads_once_moved >= compared:
            raise UserError(
                f"{ENGINE}: {part.name} of {objective} compares the policy's log-probs with the engine's, and would "
                f"get the engine's for both; set rollout.old_logp=policy, or remove the part with -{part.name}"
            )
