"""OpenRLHF's options (`train_ppo_ray.py`, `loss.py`), by their names without dashes; newer names are understood too."""

from objectives.peers.table import PeerTable, Rule

_PPO, _GSPO = {"policy_loss_type": "ppo"}, {"policy_loss_type": "gspo"}
_BOUNDS = (
    ("clip(low=LOW)", {"eps_clip": "LOW", "eps_clip_low_high": None}),
    ("clip(low=LOW)", {"eps_clip_low_high": ["LOW", "LOW"]}),
    ("clip(low=LOW)+clip_higher(high=HIGH)", {"eps_clip_low_high": ["LOW", "HIGH"]}),
)
_CORRECTED = {"enable_vllm_is_correction": True, "vllm_is_truncated_threshold": ["LOW", "HIGH"], **_PPO}
_IN_REWARD = {"use_kl_loss": False, "kl_estimator": "k1", "kl_target": None}
_LATER = "the divergence is taken off the advantage per token, after rewards are compared within their group"
_CLAMPED = "the log-ratio to the reference is clamped to [-10, 10]"
_DEVIATION = "the divergence in the reward is k1 here"

OPENRLHF = PeerTable(
    name="openrlhf",
    version="3c3be62 of August 2026",
    defaults={"advantage_estimator": "gae", "policy_loss_type": "ppo", "eps_clip": 0.2, "eps_clip_low_high": None}
    | {"dual_clip": None, "gamma": 1.0, "init_kl_coef": 0.01, "use_kl_loss": False, "kl_estimator": "k1"}
    | {"kl_target": None, "entropy_loss_coef": None, "no_advantage_std_norm": False}
    | {"enable_vllm_is_correction": False, "vllm_is_correction_type": "tis"}
    | {"vllm_is_truncated_threshold": [0.5, 5.0], "use_icepop": False, "dynamic_filtering": False}
    | {"dynamic_filtering_reward_range": [0, 1], "overlong_buffer_len": None, "overlong_penalty_factor": 1.0}
    | {"generate_max_len": 1024, "stop_properly_penalty_coef": None, "max_epochs": 1},
    stages={
        "reward": (
            Rule("", {"overlong_buffer_len": None}),
            Rule(
                "soft_overlong(max_length=LIMIT,cache=LEN)",
                {"overlong_buffer_len": "LEN", "overlong_penalty_factor": 1, "generate_max_len": "LIMIT"},
            ),
        ),
        "truncated responses": (
            Rule("", {"stop_properly_penalty_coef": 0}),
            Rule(
                "",
                {"stop_properly_penalty_coef": None},
                "a truncated response is graded by its text, as with task.grade_truncated=true here",
            ),
        ),
        "discount": (Rule("", {"gamma": 1}),),
        "divergence in the reward": (
            Rule("", {"use_kl_loss": False, "init_kl_coef": 0}),
            Rule("", {"use_kl_loss": True}),
            Rule(
                "kl_reward(beta=BETA,to_go=true)",
                {"init_kl_coef": "BETA", **_IN_REWARD, "advantage_estimator": "reinforce"},
            ),
            Rule(None, {"init_kl_coef": "BETA", **_IN_REWARD}, _LATER),
            Rule(None, {"kl_estimator": ("k2", "k3"), "use_kl_loss": False}, _DEVIATION),
        ),
        "selection": (
            Rule("", {"dynamic_filtering": False}),
            Rule(
                "dynamic_sampling",
                {"dynamic_filtering": True},
                "groups go by whether their mean reward is inside the range, here by whether all are right or wrong",
            ),
        ),
        "advantage": (
            Rule("group_norm(eps=1e-09)", {"advantage_estimator": "group_norm"}),
            Rule("group_norm(eps=EPS)", {"advantage_estimator": "group_norm"}, "adds 1e-9 to the deviation"),
            Rule("group_center", {"advantage_estimator": "dr_grpo"}),
            Rule("leave_one_out", {"advantage_estimator": "rloo"}),
            Rule("global_norm", {"advantage_estimator": "reinforce", "no_advantage_std_norm": False}),
            Rule(
                "center_then_global_norm(over=tokens)",
                {"advantage_estimator": "reinforce_baseline", "no_advantage_std_norm": False},
            ),
            Rule(None, {"no_advantage_std_norm": True}, "a mean over the batch is taken off, and nothing divided"),
            Rule(None, {"advantage_estimator": "gae"}, "it needs a value model"),
        ),
        "sampling engine": (
            Rule("", {"enable_vllm_is_correction": False}),
            Rule("sampler_correction(cap=HIGH,low=LOW,outside=drop)", {**_CORRECTED, "use_icepop": True}),
            Rule(
                "sampler_correction(cap=HIGH,low=LOW,outside=drop)", {**_CORRECTED, "vllm_is_correction_type": "icepop"}
            ),
            Rule("sampler_correction(cap=HIGH,low=LOW)", {**_CORRECTED, "vllm_is_correction_type": "tis"}),
            Rule(
                "sampler_mask(low=LOW,high=HIGH)+sampler_correction(cap=none)",
                {**_CORRECTED, "vllm_is_correction_type": "seq-mask-tis"},
            ),
            Rule(
                None, {"enable_vllm_is_correction": True, **_GSPO}, "a response's ratio to the engine that sampled it"
            ),
        ),
        "loss": (
            *(Rule(f"{clip}+token_mean", {**bounds, **_PPO, "dual_clip": None}) for clip, bounds in _BOUNDS),
            *(
                Rule(f"{clip}+dual_clip(cap=CAP)+token_mean", {**bounds, **_PPO, "dual_clip": "CAP"})
                for clip, bounds in _BOUNDS
            ),
            *(
                Rule(f"sequence_ratio+{clip}+seq_mean", {**bounds, **_GSPO, "dual_clip": None})
                for clip, bounds in _BOUNDS
            ),
        ),
        "divergence": (
            Rule("", {"use_kl_loss": False}),
            Rule("", {"use_kl_loss": True, "init_kl_coef": 0}),
            *(
                Rule(
                    f"kl(beta=BETA,estimator={kind})",
                    {"kl_estimator": kind, "use_kl_loss": True, "init_kl_coef": "BETA", "kl_target": None},
                    _CLAMPED,
                )
                for kind in ("k1", "k2", "k3")
            ),
        ),
        "entropy": (
            Rule("", {"entropy_loss_coef": (None, 0)}),
            Rule("entropy_bonus(coefficient=WEIGHT)", {"entropy_loss_coef": "WEIGHT"}),
        ),
        "schedule": (Rule("", {"max_epochs": 1}), Rule("epochs(count=COUNT)", {"max_epochs": "COUNT"})),
    },
    elsewhere=(
        *(f"{who}_num_{what}" for who in ("ref", "reward", "actor", "critic") for what in ("nodes", "gpus_per_node")),
        *("vllm_num_engines", "vllm_tensor_parallel_size", "vllm_gpu_memory_utilization", "vllm_sync_backend"),
        *("vllm_enable_sleep", "deepspeed_enable_sleep", "fsdp2_enable_sleep", "enforce_eager", "colocate_all_models"),
        *("pretrain", "reward_pretrain", "remote_rm_url", "agent_func_path", "save_path", "ckpt_path", "save_steps"),
        *("save_hf_ckpt", "load_checkpoint", "max_ckpt_num", "micro_train_batch_size", "train_batch_size"),
        *("micro_rollout_batch_size", "rollout_batch_size", "n_samples_per_prompt", "num_episodes", "prompt_max_len"),
        *("max_samples", "zero_stage", "bf16", "param_dtype", "actor_learning_rate", "critic_learning_rate"),
        *("prompt_data", "input_key", "label_key", "apply_chat_template", "normalize_reward", "gradient_checkpointing"),
        *("packing_samples", "use_dynamic_batch", "train_max_tokens_per_gpu", "rollout_max_tokens_per_gpu"),
        *("eval_dataset", "eval_steps", "eval_temperature", "eval_n_samples_per_prompt", "use_tensorboard"),
        *("logging_steps", "ring_attn_size", "ring_head_stride", "temperature", "top_p"),
    ),
    other_names={f"actor.{name}": name for name in ("policy_loss_type", "eps_clip", "eps_clip_low_high", "dual_clip")}
    | {"actor.entropy_coef": "entropy_loss_coef", "algo.kl.init_coef": "init_kl_coef", "algo.kl.target": "kl_target"}
    | {"algo.kl.estimator": "kl_estimator", "algo.kl.use_loss": "use_kl_loss"}
    | {"algo.dynamic_filtering_range": "dynamic_filtering_reward_range"}
    | {"algo.dynamic_filtering_enable": "dynamic_filtering", "vllm_enable_is_correction": "enable_vllm_is_correction"},
)
