"""TRL's GRPOConfig (`grpo_config.py`, `grpo_trainer.py`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlzoo.peers.rows import Peer, Row, Shifted

_LOSSES = {"grpo": "seq_mean", "bnpo": "token_mean(scope=microbatch)", "dr_grpo": "constant_length"} | {
    "dapo": "token_mean",
    "luspo": "seq_sum",
}
_DENOMINATORS = {
    "grpo": "each device's micro-batches weigh the same, whatever is in them",
    "bnpo": "each device's micro-batches weigh the same, here by their responses",
    "dr_grpo": "",
    "dapo": "",
    "luspo": "",
}
_WIDE, _AT_MOST_1 = Shifted("HIGH", least=1.0), Shifted("LOW", most=1.0)
"""A width of 1 and more bounds nothing below."""
_CLIPS = tuple(
    (f"{clip}{cap}", {"epsilon": low, "epsilon_high": high, "delta": delta})
    for clip, low, high in (
        ("clip(low=1)+clip_higher(high=HIGH)", _WIDE, None),
        ("clip(low=LOW)", "LOW", None),
        ("clip(low=LOW)+clip_higher(high=HIGH)", _AT_MOST_1, "HIGH"),
    )
    for cap, delta in (("", None), ("+dual_clip(cap=CAP)", "CAP"))
)


def _low_delta(values: Mapping[str, Any]) -> Sequence[str]:
    """A `delta` inside the clip bounds changes places with the upper one."""
    high = values["epsilon"] if values["epsilon_high"] is None else values["epsilon_high"]
    if values["delta"] is None or values["delta"] >= 1 + high:
        return ()
    return (
        f"delta={values['delta']}: below 1 + {high} it is what bounds gains there, and 1 + {high} what bounds losses",
    )


_BIASED = "the estimate is multiplied by the ratio and differentiated through both"

TRL = Peer(
    name="trl",
    version="1.16.0",
    defaults={
        "loss_type": "dapo",
        "scale_rewards": "group",
        "importance_sampling_level": "token",
        "epsilon": 0.2,
        "epsilon_high": None,
        "delta": None,
        "sapo_temperature_pos": 1.0,
        "sapo_temperature_neg": 1.05,
        "vespo_k_pos": 2.0,
        "vespo_lambda_pos": 3.0,
        "vespo_k_neg": 3.0,
        "vespo_lambda_neg": 2.0,
        "beta": 0.0,
        "use_bias_correction_kl": True,
        "sync_ref_model": False,
        "num_iterations": 1,
        "top_entropy_quantile": 1.0,
        "entropy_coef": 0.0,
        "use_adaptive_entropy": False,
        "mask_truncated_completions": False,
        "off_policy_mask_threshold": None,
        "use_vllm": False,
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "sequence_mask",
        "vllm_importance_sampling_clip_max": 3.0,
        "vllm_importance_sampling_clip_min": None,
        "multi_objective_aggregation": "sum_then_normalize",
    },
    stages={
        "selection": (
            Row("", {"mask_truncated_completions": False}),
            Row(
                "overlong_filter",
                {"mask_truncated_completions": True},
                "truncated responses still count in the number of responses, and not in that of tokens",
            ),
        ),
        "advantage": (
            Row("group_norm(eps=0.0001)", {"scale_rewards": ("group", True)}),
            Row("group_norm(eps=EPS)", {"scale_rewards": "group"}, "adds 1e-4 to the deviation"),
            Row("group_center", {"scale_rewards": ("none", False)}),
            Row("center_batch_std(eps=0.0001)", {"scale_rewards": "batch"}),
        ),
        "loss": (
            *(
                Row(f"{clip}+{_LOSSES[loss]}", {"loss_type": loss, "importance_sampling_level": "token", **bounds}, why)
                for loss, why in _DENOMINATORS.items()
                for clip, bounds in _CLIPS
            ),
            *(
                Row(
                    f"sequence_ratio+{clip}+{_LOSSES[loss]}",
                    {"loss_type": loss, "importance_sampling_level": "sequence", **bounds},
                    why,
                )
                for loss, why in _DENOMINATORS.items()
                for clip, bounds in _CLIPS
            ),
            Row(
                "cispo(low=1,high=HIGH)+token_mean",
                {"loss_type": "cispo", "importance_sampling_level": "token", "epsilon_high": Shifted("HIGH", by=1.0)},
            ),
            Row(
                "soft_gate(tau_pos=POS,tau_neg=NEG)+seq_mean",
                {
                    "loss_type": "sapo",
                    "importance_sampling_level": "token",
                    "sapo_temperature_pos": "POS",
                    "sapo_temperature_neg": "NEG",
                },
                _DENOMINATORS["grpo"],
            ),
            Row(
                "sequence_ratio(norm=sum)+gamma_gate(k_good=KG,l_good=LG,k_bad=KB,l_bad=LB)+token_mean",
                {
                    "loss_type": "vespo",
                    "vespo_k_pos": "KG",
                    "vespo_lambda_pos": "LG",
                    "vespo_k_neg": "KB",
                    "vespo_lambda_neg": "LB",
                },
                "with vLLM, the engine's mismatch is part of the response's ratio",
            ),
        ),
        "mask": (
            Row("", {"top_entropy_quantile": 1.0}),
            Row(
                "top_entropy(fraction=SHARE,denominator=all)",
                {"top_entropy_quantile": "SHARE"},
                "the quantile is that of a micro-batch on all devices, interpolated",
            ),
        ),
        "off-policy mask": (
            Row("", {"off_policy_mask_threshold": None}),
            Row(
                "off_policy_mask(delta=DELTA,anchor=sampler)", {"off_policy_mask_threshold": "DELTA", "use_vllm": True}
            ),
            Row("off_policy_mask(delta=DELTA)", {"off_policy_mask_threshold": "DELTA", "use_vllm": False}),
        ),
        "sampling engine": (
            Row("", {"use_vllm": False}),
            Row("", {"use_vllm": True, "vllm_importance_sampling_correction": False}),
            Row("", {"loss_type": "vespo"}),
            *(
                Row(
                    f"sampler_correction(cap=CAP{level}{outside}{low})",
                    {
                        "use_vllm": True,
                        "vllm_importance_sampling_correction": True,
                        "vllm_importance_sampling_mode": mode,
                        "vllm_importance_sampling_clip_max": "CAP",
                        "vllm_importance_sampling_clip_min": least,
                    },
                )
                for mode, level, outside in (
                    ("token_truncate", "", ""),
                    ("token_mask", "", ",outside=drop"),
                    ("sequence_truncate", ",level=product", ""),
                    ("sequence_mask", ",level=product", ",outside=drop"),
                )
                for low, least in (("", None), (",low=LEAST", "LEAST"))
            ),
        ),
        "divergence": (
            Row("", {"beta": 0}),
            Row("kl(beta=BETA)", {"beta": "BETA", "use_bias_correction_kl": False, "sync_ref_model": False}),
            Row("kl(beta=BETA)", {"use_bias_correction_kl": True, "beta": "BETA", "sync_ref_model": False}, _BIASED),
            Row("kl(beta=BETA)", {"beta": "BETA", "sync_ref_model": True}, "its reference follows the policy"),
        ),
        "entropy": (
            Row("", {"entropy_coef": 0, "use_adaptive_entropy": False}),
            Row(
                "entropy_bonus(coefficient=WEIGHT)",
                {"entropy_coef": "WEIGHT", "use_adaptive_entropy": False},
                "the mean is over a micro-batch's tokens, whatever loss_type divides by",
            ),
            Row(None, {"use_adaptive_entropy": True}, "a coefficient that moves towards a target entropy"),
        ),
        "schedule": (Row("", {"num_iterations": 1}),),
        "rewards": (Row("", {"multi_objective_aggregation": "sum_then_normalize"}),),
    },
    elsewhere=(
        "output_dir",
        "run_name",
        "learning_rate",
        "lr_scheduler_type",
        "warmup_ratio",
        "warmup_steps",
        "weight_decay",
        "adam_beta1",
        "adam_beta2",
        "max_grad_norm",
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "steps_per_generation",
        "num_generations",
        "generation_batch_size",
        "max_prompt_length",
        "max_completion_length",
        "temperature",
        "top_p",
        "top_k",
        "num_train_epochs",
        "max_steps",
        "bf16",
        "seed",
        "logging_steps",
        "save_steps",
        "report_to",
        "gradient_checkpointing",
        "vllm_mode",
        "vllm_gpu_memory_utilization",
        "vllm_tensor_parallel_size",
        "reward_weights",
        "model_name_or_path",
        "dataset_name",
    ),
    other_names={"vllm_importance_sampling_cap": "vllm_importance_sampling_clip_max"},
    odd=_low_delta,
    always=("its ratios are not clamped; here log-ratios are, to [-20, 20]",),
)
