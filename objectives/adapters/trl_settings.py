"""What an objective decides about TRL's settings, and what the adapter relies on in TRL."""

import copy
from dataclasses import fields
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from objectives import Objective, ObjectiveError
from objectives.adapters.package import Package
from objectives.parts.advantages import check_overlong
from objectives.peers.replaced import refuse_replaced
from objectives.peers.trl import TRL

_IN_FORCE = ("use_vllm", "sync_ref_model", "vllm_importance_sampling_correction")
"""Settings of TRL's objective that are left to TRL, or set below whatever they are."""

_TRAINER = "trl:GRPOTrainer"
PEER = Package(
    "trl",
    tested=(1, 16),
    seams={
        f"{_TRAINER}._calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
        f"{_TRAINER}._compute_loss": ("self", "model", "inputs"),
        f"{_TRAINER}._generate_and_score_completions": ("self", "inputs"),
        f"{_TRAINER}._get_output_dir": ("self", "trial"),
        f"{_TRAINER}._get_per_token_logps_and_entropies": (
            *("self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size"),
            *("compute_entropy", "compute_aux_loss"),
        ),
        f"{_TRAINER}._load_optimizer_and_scheduler": ("self", "checkpoint"),
        f"{_TRAINER}._prepare_inputs": ("self", "generation_batch"),
        f"{_TRAINER}._save_checkpoint": ("self", "model", "trial"),
        f"{_TRAINER}._tool_call_loop": (
            *("self", "prompts", "prompt_ids", "completion_ids", "completions", "logprobs", "images"),
            "multimodal_fields",
        ),
        f"{_TRAINER}.prediction_step": ("self", "model", "inputs", "prediction_loss_only", "ignore_keys"),
        f"{_TRAINER}.training_step": ("self", "model", "inputs", "num_items_in_batch"),
    },
)

_STATE = (
    *("_is_vlm", "_metrics", "_step", "_tokenizer", "accelerator", "aux_loss_enabled", "eos_token_ids"),
    *("max_completion_length", "max_tool_calling_iterations", "num_generations", "num_iterations"),
    *("reward_func_names", "reward_weights", "router_aux_loss_coef"),
)
"""What the adapter reads of a trainer."""

_SETTINGS = (
    *("disable_dropout", "generation_batch_size", "num_generations", "steps_per_generation", "sync_ref_model"),
    "vllm_importance_sampling_correction",
)


def check_peer() -> None:
    """Raises ObjectiveError for the first thing in TRL that is not what the adapter was written for."""
    PEER.check()
    if getattr(GRPOTrainer, "loss_is_scaled_for_ga", None) is not True:
        raise PEER.changed("GRPOTrainer.loss_is_scaled_for_ga should be True, so that no one else divides the loss")
    there = {item.name for item in fields(GRPOConfig)}
    for name in _SETTINGS:
        if name not in there:
            raise PEER.changed(f"GRPOConfig.{name} is not there")


def check_state(trainer: Any) -> None:
    """Raises ObjectiveError for the first attribute of a trainer that the adapter reads and that is not there."""
    for name in _STATE:
        if not hasattr(trainer, name):
            raise PEER.changed(f"GRPOTrainer has no {name}")


def settled(objective: Objective, args: GRPOConfig) -> GRPOConfig:
    """A copy of the settings with what the objective decides; `beta` is 1 where it reads TRL's reference.

    Raises ObjectiveError, naming the remedy, for a setting that the objective replaces and for one it cannot go with.
    """
    given = {name: getattr(args, name) for name in TRL.defaults if hasattr(args, name)}
    usual = {item.name: item.default for item in fields(args)}
    decided = {name: given[name] for name in _IN_FORCE} | {"num_iterations": objective.pass_count}
    refuse_replaced(TRL, objective, given, usual, decided)
    _refuse_uneven(args)
    if args.num_generations < objective.learning_group:
        raise ObjectiveError(
            f"num_generations={args.num_generations}: objective={objective} needs at least {objective.learning_group}"
        )
    if lacking := TRL.lacking(objective.needs):
        raise ObjectiveError(
            f"objective={objective} reads {lacking}, which TRL does not give: its scoring pass tells the log-probs and "
            f"entropies of completions alone"
        )
    check_overlong(objective.parts, "max_completion_length", args.max_completion_length or 0)
    reads_reference = "logp_ref" in objective.needs
    if args.sync_ref_model and not reads_reference:
        raise ObjectiveError(f"sync_ref_model=True, but objective={objective} reads no reference: add +kl(beta=0.04)")
    args = copy.copy(args)
    args.beta = 1.0 if reads_reference else 0.0  # TRL loads the reference for it and does nothing else with it here
    args.num_iterations = decided["num_iterations"]
    args.disable_dropout = True  # the ratio compares the same network
    args.vllm_importance_sampling_correction = False  # +sampler_correction does it
    return args


def _refuse_uneven(args: GRPOConfig) -> None:
    """A mini-batch is made of whole groups, a generation of whole mini-batches."""
    size, window = args.num_generations, args.gradient_accumulation_steps
    rows = args.per_device_train_batch_size * window * args.world_size
    if rows % size:
        raise ObjectiveError(
            f"a prompt's num_generations={size} completions would be in two mini-batches: make per_device_train_batch_"
            f"size={args.per_device_train_batch_size} * gradient_accumulation_steps={window} * {args.world_size} "
            f"processes = {rows} a multiple of it"
        )
    if args.steps_per_generation % window:
        raise ObjectiveError(
            f"steps_per_generation={args.steps_per_generation} must be a multiple of "
            f"gradient_accumulation_steps={window}, so that updates are on whole mini-batches"
        )
