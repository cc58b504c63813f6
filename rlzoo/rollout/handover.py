"""The policy's weights on their way to an engine that calculates by itself, and whether they have arrived."""

from collections.abc import Callable, Collection, Iterator

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.errors import UserError
from rlzoo.model.policy import Policy
from rlzoo.model.sharding import full_tensor
from rlzoo.rollout.base import RolloutEngine, Sampling

LARGEST_DIFFERENCE = 0.5
"""Nats per token between the log-probs of an engine and of transformers; bfloat16 makes 0.03, wrong weights several."""


def checkpoint_weights(
    model: PreTrainedModel, untied: Collection[str] = (), gathered: Callable[[Tensor], Tensor] = full_tensor
) -> Iterator[tuple[str, Tensor]]:
    """The weights as a saved checkpoint has them, which is what vLLM reads; of tied ones the first and the `untied`.

    Sharded ones come `gathered`, whole, one at a time and in the same order everywhere: it takes all processes. Raises
    RuntimeError at the end if something of the model was left out.
    """
    weights, left = model.state_dict(), sum(parameter.numel() for parameter in model.parameters())
    tensors = {**dict(model.named_buffers()), **dict(model.named_parameters(remove_duplicate=False))}
    first = {id(tensors[name]): name for name in reversed(weights)}
    for name, weight in weights.items():
        is_first = first[id(tensors[name])] == name
        if is_first or name in untied:
            left -= weight.numel() if is_first and isinstance(tensors[name], torch.nn.Parameter) else 0
            yield from revert_weight_conversion(model, {name: gathered(weight)}).items()
    if left:
        raise RuntimeError(f"{left:,} weights of {type(model).__name__} were not handed over")


@torch.no_grad()
def check_agreement(engine: RolloutEngine, policy: Policy, config: RolloutConfig, model: ModelConfig) -> None:
    """Tries the hand-over: some releases lose weights of some architectures on some machines without a word.

    Raises UserError if the engine's log-probs are not the policy's.
    """
    size = len(policy.model.get_input_embeddings().weight)  # type: ignore[arg-type]
    prompts = [[97 * number % size] for number in range(8)]
    rollouts = engine.generate(prompts, 4, Sampling(min(8, config.max_response_tokens)), seed=0)
    # As in training: some attention kernels refuse the float32 weights by themselves.
    with torch.autocast(policy.device.type, torch.bfloat16, enabled=model.precision == "bfloat16"):
        stats = policy(rollouts.responses(), 1.0)
    difference = (stats.logp.cpu() - rollouts.logp)[rollouts.mask].abs().mean().item()
    if not difference < LARGEST_DIFFERENCE:
        raise UserError(
            f"rollout.engine={config.engine}: its log-probs for {model.name} ({type(policy.model).__name__}) are not "
            f"those of transformers, {difference:.2g} nats apart per token; set rollout.engine=transformers"
        )
