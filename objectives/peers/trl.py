"""TRL's GRPOConfig (`grpo_config.py`, `grpo_trainer.py`)."""

from collections.abc import Mapping
from typing import Any

from objectives.peers.table import PeerTable, Rule, Shifted, is_number

_UNEVEN = "each device's micro-batches weigh the same, whatever is in them"
_DENOMINATORS = {
    "grpo": ("seq_mean", _UNEVEN),
    "bnpo": ("token_mean(scope=microbatch)", "each device's micro-batches weigh the same, here by their responses"),
    "dr_grpo": ("constant_length", ""),
    "dapo": ("token_mean", ""),
    "luspo": ("seq_sum", ""),
}
_OF_GENERATION = (
    "with steps_per_generation above gradient_accumulation_steps an update is divided by its share of the generation's "
    "tokens, here by its own"
)
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
_CISPO = {"loss_type": "cispo", "importance_sampling_level": "token"}
_ENGINE = "vllm_importance_sampling_"
_LEVELS = (("", "token"), ("sequence_ratio+", "sequence"))


def _low_delta(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A `delta` inside the clip bounds bounds gains, and the upper one losses: they change places."""
    high, delta = values["epsilon_high"], values["delta"]
    high = values["epsilon"] if high is None else high
    if not (is_number(delta) and is_number(high)) or delta >= 1 + high:
        return values
    return {**values, "epsilon_high": round(delta - 1, 12), "delta": round(1 + high, 12)}


_BIASED = {"beta": "BETA", "use_bias_correction_kl": False, "sync_ref_model": False}
_UNBIASED, _BY_TOKEN = {**_BIASED, "use_bias_correction_kl": True}, {"importance_sampling_level": "token"}
_BY_RESPONSE = "the estimate is multiplied by the response's ratio, differentiated too"
_FOLLOWS = "its reference follows the policy"

TRL = PeerTable(
    name="trl",
    adapter="objectives.adapters.trl.ZooGRPOTrainer",
    stages={
        "selection": (
            Rule("", {"mask_truncated_completions": False}),
            Rule(
                "overlong_filter",
                {"mask_truncated_completions": True},
                "truncated responses still count in the number of responses, and not in that of tokens",
            ),
        ),
        "advantage": (
            Rule("group_norm(eps=0.0001)", {"scale_rewards": ("group", True)}),
            Rule("group_norm(eps=EPS)", {"scale_rewards": "group"}, "adds 1e-4 to the deviation"),
            Rule("group_center", {"scale_rewards": ("none", False)}),
            Rule("center_batch_std(eps=0.0001)", {"scale_rewards": "batch"}),
        ),
        "loss": (
            *(
                Rule(f"{ratio}{clip}+{mean}", {"loss_type": loss, "importance_sampling_level": level, **bounds}, why)
                for ratio, level in _LEVELS
                for loss, (mean, why) in _DENOMINATORS.items()
                for clip, bounds in _CLIPS
            ),
            Rule("cispo(low=1,high=HIGH)+token_mean", {**_CISPO, "epsilon_high": Shifted("HIGH", by=1.0, least=0.0)}),
            Rule(
                None,
                {**_CISPO, "epsilon_high": (None, "HIGH")},
                "every ratio is cut below 1, at epsilon_high or else epsilon; with cispo that is a number like 5.0",
            ),
            *(
                Rule(
                    f"{ratio}soft_gate(tau_pos=POS,tau_neg=NEG)+seq_mean",
                    {"loss_type": "sapo", "importance_sampling_level": level}
                    | {"sapo_temperature_pos": "POS", "sapo_temperature_neg": "NEG"},
                    _UNEVEN,
                )
                for ratio, level in _LEVELS
            ),
            Rule(
                "sequence_ratio(norm=sum)+gamma_gate(k_good=KG,l_good=LG,k_bad=KB,l_bad=LB)+token_mean",
                {"loss_type": "vespo", "vespo_k_pos": "KG", "vespo_lambda_pos": "LG"}
                | {"vespo_k_neg": "KB", "vespo_lambda_neg": "LB"},
                "with vLLM, the engine's mismatch is part of the response's ratio",
            ),
        ),
        "denominator": tuple(
            Rule("", {"loss_type": loss}, _OF_GENERATION if loss in ("dapo", "cispo", "vespo") else "")
            for loss in (*_DENOMINATORS, "cispo", "sapo", "vespo")
        ),
        "mask": (
            Rule("", {"top_entropy_quantile": 1.0}),
            Rule(
                "top_entropy(fraction=SHARE,denominator=all)",
                {"top_entropy_quantile": "SHARE"},
                "the quantile is that of a micro-batch on all devices, interpolated",
            ),
        ),
        "off-policy mask": (
            Rule("", {"off_policy_mask_threshold": None}),
            Rule(
                "off_policy_mask(delta=DELTA,anchor=sampler)", {"off_policy_mask_threshold": "DELTA", "use_vllm": True}
            ),
            Rule("off_policy_mask(delta=DELTA)", {"off_policy_mask_threshold": "DELTA", "use_vllm": False}),
        ),
        "sampling engine": (
            Rule("", {"use_vllm": False}),
            Rule("", {"use_vllm": True, "vllm_importance_sampling_correction": False}),
            Rule("", {"loss_type": "vespo"}),
            *(
                Rule(
                    f"sampler_correction(cap={cap}{level}{outside}{low})",
                    {"use_vllm": True, f"{_ENGINE}correction": True, f"{_ENGINE}mode": mode}
                    | {f"{_ENGINE}clip_max": most, f"{_ENGINE}clip_min": least},
                )
                for mode, level, outside in (
                    ("token_truncate", "", ""),
                    ("token_mask", "", ",outside=drop"),
                    ("sequence_truncate", ",level=product", ""),
                    ("sequence_mask", ",level=product", ",outside=drop"),
                )
                for cap, most in (("CAP", "CAP"), ("none", None))
                for low, least in (("", None), (",low=LEAST", "LEAST"))
            ),
        ),
        "divergence": (
            Rule("", {"beta": 0}),
            Rule("kl(beta=BETA)", _BIASED),
            Rule("unbiased_kl(beta=BETA)", {**_UNBIASED, **_BY_TOKEN}),
            Rule("kl(beta=BETA)", _UNBIASED, _BY_RESPONSE),
            Rule("kl(beta=BETA)", {**_BIASED, "sync_ref_model": True}, _FOLLOWS),
            Rule("unbiased_kl(beta=BETA)", {**_UNBIASED, "sync_ref_model": True, **_BY_TOKEN}, _FOLLOWS),
            Rule("kl(beta=BETA)", {**_UNBIASED, "sync_ref_model": True}, f"{_BY_RESPONSE}; {_FOLLOWS}"),
        ),
        "entropy": (
            Rule("", {"entropy_coef": 0, "use_adaptive_entropy": False}),
            Rule(
                "entropy_bonus(coefficient=WEIGHT)",
                {"entropy_coef": "WEIGHT", "use_adaptive_entropy": False},
                "the mean is over a micro-batch's tokens, whatever loss_type divides by",
            ),
            Rule(
                None,
                {"use_adaptive_entropy": True}
                | {f"entropy_{name}": name.upper() for name in ("coef_min", "coef_max", "coef_delta", "target")},
                "it moves the coefficient of the entropy with each update; adaptive_entropy does so once a step",
            ),
        ),
        "schedule": (Rule("", {"num_iterations": 1}), Rule("epochs(count=COUNT)", {"num_iterations": "COUNT"})),
        "rewards": (
            Rule("", {"multi_objective_aggregation": "sum_then_normalize"}),
            Rule(
                None,
                {"multi_objective_aggregation": "normalize_then_sum"},
                "it takes the rewards of each reward function apart, as objective=gdpo does",
            ),
        ),
    },
    elsewhere=(
        *("reward_weights", "prediction_loss_only", "reward_funcs", "reward_model_name_or_path"),
        *("warmup_ratio", "max_prompt_length", "model_name_or_path", "dataset_name"),
    ),
    other_names={"vllm_importance_sampling_cap": "vllm_importance_sampling_clip_max"},
    as_read=_low_delta,
    always=("its ratios are not clamped; here log-ratios are, to [-20, 20]",),
)
