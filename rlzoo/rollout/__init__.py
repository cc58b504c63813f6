"""Rollout engines behind one protocol."""

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.policy import Policy
from rlzoo.rollout.base import RolloutEngine
from rlzoo.tokenizer import Tokenizer


def load_engine(config: RolloutConfig, model: ModelConfig, policy: Policy, tokenizer: Tokenizer) -> RolloutEngine:
    """The engine that `rollout.engine` names."""
    from rlzoo.rollout.transformers_engine import TransformersEngine

    return TransformersEngine(policy, tokenizer, model.precision, config.rows_per_batch)
