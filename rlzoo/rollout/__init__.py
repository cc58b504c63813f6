"""Rollout engines behind one protocol."""

from rlzoo.config import EvaluationConfig, ModelConfig, RolloutConfig
from rlzoo.errors import UserError
from rlzoo.model.policy import Policy
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import RolloutEngine


def check_engine(rollout: RolloutConfig, evaluation: EvaluationConfig) -> None:
    """Refuses an engine that cannot run here and settings it would not heed, before any model loads."""
    gib = rollout.kv_cache_gib
    if rollout.engine == "vllm":
        from rlzoo.rollout.vllm_engine import check

        check(rollout, evaluation)
    elif gib is not None:
        raise UserError(
            f"rollout.kv_cache_gib={gib:g} has no effect with rollout.engine={rollout.engine}; leave it out"
        )


def load_engine(
    config: RolloutConfig, model: ModelConfig, policy: Policy, tokenizer: Tokenizer, version: int = 0
) -> RolloutEngine:
    """The engine that `rollout.engine` names; the policy has `version` updates behind it."""
    if config.engine == "vllm":
        from rlzoo.rollout.vllm_engine import VllmEngine

        return VllmEngine(policy, tokenizer, config, model, version)
    from rlzoo.rollout.transformers_engine import TransformersEngine

    return TransformersEngine(policy, tokenizer, model.precision, config.rows_per_batch, version)
