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
        raise UserError(
            f"{ENGINE} is for rollouts of the newest policy, and {rollout.stale} trains on those of older ones, whose "
            f"old log-probs are the engine's anyway; leave it out"
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
    rollout = config.rollout
    if rollout.old_logp == "policy" and not rollout.may_be_stale:
        return
    setting = rollout.stale or ENGINE
    compared = {"logp_old", "logp_sampler"}
    for part in objective.parts:
        if part.needs | part.reads_once_moved >= compared:
            raise UserError(
                f"{setting}: {part.name} of {objective} compares the policy's log-probs with the engine's, and would "
                f"get the engine's for both; leave {setting} out, or remove the part with -{part.name}"
            )
