"""Rollout engines behind one protocol."""

from rlzoo.config import Config, ModelConfig, RolloutConfig
from rlzoo.errors import UserError
from rlzoo.policy import Policy
from rlzoo.rollout.base import RolloutEngine
from rlzoo.tokenizer import Tokenizer


def check_engine(config: Config) -> None:
    """Refuses an engine that cannot run here and settings it would not heed, before any model loads."""
    rollout, gib = config.rollout, config.rollout.kv_cache_gib
    if rollout.engine != "vllm":
        if gib is not None:
            raise UserError(f"rollout.kv_cache_gib={gib:g} has no effect with rollout.engine={rollout.engine}")
        return
    from rlzoo.rollout.vllm_engine import COLDEST, check_vllm

    if gib is not None and gib <= 0:
        raise UserError(f"rollout.kv_cache_gib={gib:g} must be greater than 0")
    for key, temperature in (("rollout", rollout.temperature), ("evaluation", config.evaluation.temperature)):
        if 0 < temperature < COLDEST:
            raise UserError(
                f"{key}.temperature={temperature:g}: vLLM samples at {COLDEST} or above; raise it, or set 0 for greedy"
            )
    check_vllm()


def load_engine(config: RolloutConfig, model: ModelConfig, policy: Policy, tokenizer: Tokenizer) -> RolloutEngine:
    """The engine that `rollout.engine` names."""
    if config.engine == "vllm":
        from rlzoo.rollout.vllm_engine import VllmEngine

        return VllmEngine(policy, tokenizer, config, model)
    from rlzoo.rollout.transformers_engine import TransformersEngine

    return TransformersEngine(policy, tokenizer, model.precision, config.rows_per_batch)
