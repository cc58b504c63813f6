"""Rollout engines behind one protocol. What an engine can do stands at its class; nothing asks for its name."""

import inspect
from dataclasses import MISSING, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlzoo.config import Config, ModelConfig, RolloutConfig
from rlzoo.config.decoding import read_decodings
from rlzoo.config.recorded import is_outside
from rlzoo.errors import UserError, nearest
from rlzoo.rollout.traits import TransformersTraits, VllmServerTraits, VllmTraits
from rlzoo.tasks.outside import load_outside

if TYPE_CHECKING:
    from rlzoo.model.policy import Policy
    from rlzoo.model.tokenizer import Tokenizer
    from rlzoo.rollout.base import RolloutEngine

BUILTIN_ENGINES = {
    "transformers": ("rlzoo.rollout.transformers_engine", "TransformersEngine"),
    "vllm": ("rlzoo.rollout.vllm_engine", "VllmEngine"),
    "vllm_server": ("rlzoo.rollout.vllm_server", "VllmServer"),
}
"""The engines of this package: name -> module and class. Their modules import what samples when they are loaded."""
TRAITS = {"transformers": TransformersTraits, "vllm": VllmTraits, "vllm_server": VllmServerTraits}


def check_engine_name(written: str) -> None:
    """Raises UserError for an engine that is neither of this package nor written as one from outside."""
    if written not in BUILTIN_ENGINES and not is_outside(written):
        near = nearest(written, BUILTIN_ENGINES, most=1)
        raise UserError(
            f"rollout.engine={written} is not one of {', '.join(BUILTIN_ENGINES)}{near} "
            f"(one of your own is written my_module:MyEngine or ./my_file.py:MyEngine)"
        )


def engine_class(written: str) -> "type[RolloutEngine]":
    """The engine that `rollout.engine` names. Raises UserError if there is none, or if it lacks what an engine has."""
    check_engine_name(written)
    if written in BUILTIN_ENGINES:
        module, name = BUILTIN_ENGINES[written]
        return getattr(import_module(module), name)

    from rlzoo.rollout.base import RolloutEngine

    loaded: type[RolloutEngine] = load_outside("rollout.engine", written)
    if not isinstance(loaded, type):
        raise UserError(f"rollout.engine={written} is no class")
    wanted = [name for name in {**RolloutEngine.__annotations__, **vars(RolloutEngine)} if not name.startswith("_")]
    if missing := [name for name in wanted if not hasattr(loaded, name)]:
        raise UserError(f"rollout.engine={written} has no {', no '.join(missing)}; an engine has {', '.join(wanted)}")
    try:
        inspect.signature(loaded.check).bind("rollout", "model", "decodings")
    except TypeError:
        raise UserError(f"rollout.engine={written}: its check must take rollout, model and decodings") from None
    return loaded


def engine_traits(written: str) -> Any:
    """The class that says what an engine can do; for a shipped one nothing that samples is imported."""
    return TRAITS.get(written) or engine_class(written)


def check_engine(config: Config) -> None:
    """Refuses an engine that cannot run here and settings it would not heed, before any model loads."""
    engine = engine_class(config.rollout.engine)
    refuse_unread(config.rollout)
    engine.check(config.rollout, config.model, read_decodings(config.evaluation.decodings))


def refuse_unread(rollout: RolloutConfig) -> None:
    """Raises UserError for a key that the engine does not read: of the section, those whose default is none or empty.

    They are for the engines that say that they read them.
    """
    engine = engine_traits(rollout.engine)
    for item in fields(RolloutConfig):
        value = getattr(rollout, item.name)
        is_unset = value in (None, {})
        if not is_unset and item.default in (None, MISSING) and item.name not in engine.reads:
            raise UserError(
                f"rollout.{item.name}={value} has no effect with rollout.engine={rollout.engine}; leave it out"
            )


def load_engine(
    config: RolloutConfig,
    model: ModelConfig,
    policy: "Policy",
    tokenizer: "Tokenizer",
    version: int = 0,
) -> "RolloutEngine":
    """The engine that `rollout.engine` names; the policy has `version` updates behind it.

    Raises UserError if it calculates by itself and its log-probs are not the policy's.
    """
    from rlzoo.rollout.base import check_agreement

    engine = engine_class(config.engine)(policy, tokenizer, config, model, version)
    if not engine.shares_weights:
        check_agreement(engine, policy, config, model)
    return engine
