"""The models of a run: the policy as its checkpoint has it, and those that do not learn."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.progress import readable
from rlzoo.model.lora import add_adapters
from rlzoo.model.policy import Policy, load_policy
from rlzoo.model.pretrained import INITIAL, POLICY, errors_naming
from rlzoo.model.sharded_loading import load_shared_out
from rlzoo.model.sharding import Sharding
from rlzoo.training.checkpoint import load_weights


@dataclass(frozen=True)
class Models:
    """On the device: the policy, and the reference and the teacher where they have weights of their own."""

    policy: Policy
    reference: Policy | None
    teacher: Policy | None


def load_models(
    experiment: Experiment,
    needs: frozenset[str],
    checkpoint: Path | None,
    device: torch.device,
    sharding: Sharding | None = None,
) -> Models:
    """The policy at a checkpoint, if there is one, and what the fields `needs` are scored by.

    Sharded models are never whole on any process, and all processes must load them together.
    """
    config, tokenizer = experiment.config.model, experiment.tokenizer
    policy = load_shared_out(config, tokenizer, device, sharding) if sharding else load_policy(config, tokenizer)
    if config.lora.rank:
        add_adapters(policy.model, config.lora)

    def frozen(name: str) -> Policy:
        """A model that does not learn; `initial` is the policy before its checkpoint."""
        named = config if name == INITIAL else replace(config, name=name, revision=None)
        if sharding:
            return load_shared_out(named, tokenizer, device, sharding, learns=False)
        return (policy if name == INITIAL else load_policy(named, tokenizer)).frozen_copy().to(device)

    reference, teacher = None, None
    if "logp_ref" in needs:
        with errors_naming("model.reference"):
            reference = frozen(config.reference)
    if "logp_teacher" in needs and config.teacher != POLICY:
        with errors_naming("model.teacher"):
            teacher = frozen(config.teacher)
    if checkpoint is not None:
        with readable(checkpoint):
            load_weights(checkpoint, policy)
    models = Models(policy if sharding else policy.to(device), reference, teacher)
    if config.compile:
        for model in filter(None, (models.policy, reference, teacher)):
            model.compile_layers()
    return models
