"""verl's settings (`core_algos.py`, `ppo_trainer.yaml`).

Shell variables and Hydra's interpolations are not resolved: the file has values. Every loss is given its response mask,
advantages and old log-probs by the trainer, and divides by what the whole mini-batch counts.
"""

from rlzoo.peers.rows import Peer, Row, Shifted

ADVANTAGE = "algorithm.adv_estimator"
STANDARD = "algorithm.norm_adv_by_std_in_grpo"
GAMMA = "algorithm.gamma"
LOSS = "actor_rollout_ref.actor.policy_loss.loss_mode"
LOW, HIGH, CAP = (f"actor_rollout_ref.actor.clip_ratio_{it}" for it in ("low", "high", "c"))
CLIP = "actor_rollout_ref.actor.clip_ratio"
TAU_POS, TAU_NEG = (f"actor_rollout_ref.actor.tau_{it}" for it in ("pos", "neg"))
COV = "actor_rollout_ref.actor.policy_loss.clip_cov_"
KL_COV, KL_COEF, DRO = (
    f"actor_rollout_ref.actor.policy_loss.{it}" for it in ("kl_cov_ratio", "ppo_kl_coef", "dro_beta")
)
MEAN = "actor_rollout_ref.actor.loss_agg_mode"
LENGTH = "actor_rollout_ref.actor.loss_scale_factor"
KL, BETA, KIND = (f"actor_rollout_ref.actor.{it}" for it in ("use_kl_loss", "kl_loss_coef", "kl_loss_type"))
ENTROPY = "actor_rollout_ref.actor.entropy_coeff"
REWARD_KL, REWARD_KIND = "algorithm.use_kl_in_reward", "algorithm.kl_penalty"
CONTROL, REWARD_BETA = "algorithm.kl_ctrl.type", "algorithm.kl_ctrl.kl_coef"
FILTER, METRIC = "algorithm.filter_groups.enable", "algorithm.filter_groups.metric"
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg."
LIMIT = "data.max_response_length"
SAMPLER, BOUND, REJECT = (
    f"algorithm.rollout_correction.{it}" for it in ("rollout_is", "rollout_is_threshold", "rollout_rs")
)
NORMALISED, BYPASS = (f"algorithm.rollout_correction.{it}" for it in ("rollout_is_batch_normalize", "bypass_mode"))
BYPASS_LOSS = "algorithm.rollout_correction.loss_type"
EPOCHS = "actor_rollout_ref.actor.ppo_epochs"

_NO_CAP = 1e9
"""Above e^20, to which the ratio is clamped: a dual clip that never acts."""
_OLD = "old log-probs are those of the engine, so that the clip sees its mismatch too"
_DROPPED = "drawn among the tokens that the clip leaves; means and share are a micro-batch's"
_ONE_ADVANTAGE = "geo_mean takes the mean of a response's advantages, here each token has its own"
_NOT_COUNTED = "its loss takes the mean per response whatever loss_agg_mode says"

VERL = Peer(
    name="verl",
    version="0.9.1",
    defaults={
        ADVANTAGE: "gae",
        STANDARD: True,
        GAMMA: 1.0,
        LOSS: "vanilla",
        LOW: 0.2,
        HIGH: 0.2,
        CAP: 3.0,
        TAU_POS: 1.0,
        TAU_NEG: 1.05,
        f"{COV}ratio": 2e-4,
        f"{COV}lb": 1.0,
        f"{COV}ub": 5.0,
        KL_COV: 2e-4,
        KL_COEF: 0.1,
        DRO: None,
        MEAN: "token-mean",
        LENGTH: None,
        KL: False,
        BETA: 0.001,
        KIND: "low_var_kl",
        ENTROPY: 0,
        REWARD_KL: False,
        REWARD_KIND: "kl",
        CONTROL: "fixed",
        REWARD_BETA: 0.001,
        FILTER: False,
        METRIC: "reward",
        f"{OVERLONG}enable": False,
        f"{OVERLONG}len": None,
        f"{OVERLONG}penalty_factor": 1.0,
        LIMIT: 512,
        SAMPLER: None,
        BOUND: 2.0,
        REJECT: None,
        NORMALISED: False,
        BYPASS: False,
        BYPASS_LOSS: "ppo_clip",
        EPOCHS: 1,
        CLIP: 0.2,
    },
    instead={LOW: CLIP, HIGH: CLIP},
    stages={
        "reward": (
            Row("", {f"{OVERLONG}enable": False}),
            Row(
                "soft_overlong(max_length=LIMIT,cache=LEN)",
                {
                    f"{OVERLONG}enable": True,
                    f"{OVERLONG}len": "LEN",
                    f"{OVERLONG}penalty_factor": 1.0,
                    LIMIT: "LIMIT",
                },
            ),
            Row(
                "soft_overlong",
                {f"{OVERLONG}len": None, f"{OVERLONG}enable": True, f"{OVERLONG}penalty_factor": 1.0},
                f"it has to be given; a fifth of {LIMIT} is what is meant",
            ),
        ),
        "divergence in the reward": (
            Row("", {REWARD_KL: False}),
            *(
                Row(
                    "kl_reward(beta=BETA,to_go=true)",
                    {
                        REWARD_KL: True,
                        REWARD_KIND: ("kl", "k1"),
                        CONTROL: "fixed",
                        REWARD_BETA: "BETA",
                        ADVANTAGE: "reinforce_plus_plus",
                        **loss,
                    },
                    why,
                )
                for loss, why in (({LOSS: "geo_mean"}, _ONE_ADVANTAGE), ({}, ""))
            ),
            Row(
                "kl_reward(beta=BETA)",
                {REWARD_KL: True, REWARD_KIND: ("kl", "k1"), CONTROL: "fixed", REWARD_BETA: "BETA"},
            ),
        ),
        "selection": (
            Row("", {FILTER: False}),
            Row("dynamic_sampling", {FILTER: True, METRIC: "acc"}),
            Row(
                "dynamic_sampling",
                {FILTER: True},
                "groups go by whether their values of the metric are equal, here by whether all are right or wrong",
            ),
        ),
        "advantage": (
            Row("group_norm", {ADVANTAGE: ("grpo", "grpo_vectorized"), STANDARD: True}),
            Row("group_norm(eps=EPS)", {ADVANTAGE: "grpo", STANDARD: True}, "adds 1e-6 to the deviation"),
            Row("group_center", {ADVANTAGE: ("grpo", "grpo_vectorized"), STANDARD: False}),
            Row("leave_one_out", {ADVANTAGE: ("rloo", "rloo_vectorized")}),
            Row("optimal_baseline", {ADVANTAGE: "opo"}),
            Row("global_norm", {ADVANTAGE: "reinforce_plus_plus", GAMMA: 1}, "the variance has ddof 1, here 0"),
            Row(
                "center_then_global_norm(over=tokens)",
                {ADVANTAGE: "reinforce_plus_plus_baseline"},
                "the variance has ddof 1, here 0",
            ),
            Row("scaled_center(counts=rewarded)", {ADVANTAGE: "gpg"}),
            Row(None, {ADVANTAGE: "gae"}, "it needs a value model"),
            Row(None, {ADVANTAGE: "remax"}, "it needs a greedy response per prompt"),
            Row(None, {ADVANTAGE: "gdpo"}, "it needs several rewards per response"),
        ),
        "sampling engine": (
            Row("", {SAMPLER: None, REJECT: None, BYPASS: False}),
            Row(
                "sampler_correction(cap=CAP)",
                {SAMPLER: "token", BOUND: "CAP", REJECT: None, NORMALISED: False, BYPASS: False, LOSS: "geo_mean"},
                "a response is weighted by the geometric mean of its tokens' weights, here each token by its own",
            ),
            Row(
                "sampler_correction(cap=CAP)",
                {SAMPLER: "token", BOUND: "CAP", REJECT: None, NORMALISED: False, BYPASS: False},
            ),
            Row(
                "sampler_correction(cap=CAP,level=product)",
                {SAMPLER: "sequence", BOUND: "CAP", REJECT: None, NORMALISED: False, BYPASS: False},
            ),
            Row("sampler_ratio", {BYPASS: True, REJECT: None, BYPASS_LOSS: "ppo_clip", LOSS: "vanilla"}, _OLD),
            Row(
                None,
                {BYPASS: True, REJECT: None, BYPASS_LOSS: "ppo_clip"},
                "bypass_mode puts its own clip in the place of loss_mode; write loss_mode=vanilla",
            ),
            Row(None, {BYPASS: True, BYPASS_LOSS: "reinforce"}, "its weights and its loss are in one, without a clip"),
        ),
        "loss": (
            Row("clip(low=LOW)", {LOSS: "vanilla", LOW: "LOW", HIGH: "LOW", CAP: _NO_CAP}),
            Row("clip(low=LOW)+clip_higher(high=HIGH)", {LOSS: "vanilla", LOW: "LOW", HIGH: "HIGH", CAP: _NO_CAP}),
            Row("clip(low=LOW)+dual_clip(cap=CAP)", {LOSS: "vanilla", LOW: "LOW", HIGH: "LOW", CAP: "CAP"}),
            Row(
                "clip(low=LOW)+clip_higher(high=HIGH)+dual_clip(cap=CAP)",
                {LOSS: "vanilla", LOW: "LOW", HIGH: "HIGH", CAP: "CAP"},
            ),
            Row("sequence_ratio+clip(low=LOW)", {LOSS: "gspo", LOW: "LOW", HIGH: "LOW"}),
            Row("sequence_ratio+clip(low=LOW)+clip_higher(high=HIGH)", {LOSS: "gspo", LOW: "LOW", HIGH: "HIGH"}),
            Row(
                "soft_gate(tau_pos=POS,tau_neg=NEG)+seq_mean",
                {LOSS: "sapo", TAU_POS: "POS", TAU_NEG: "NEG"},
                _NOT_COUNTED,
            ),
            Row(
                "geometric_ratio(low=LOW,high=HIGH)+unclipped+seq_mean",
                {LOSS: "geo_mean", LOW: "LOW", HIGH: "HIGH"},
                "the mean is a micro-batch's, over its rows, and micro-batches weigh the same",
            ),
            Row("reinforce", {LOSS: "gpg"}),
            Row(
                "cispo(low=LOW,high=HIGH)",
                {LOSS: "cispo", LOW: Shifted("LOW", most=1.0), HIGH: "HIGH"},
            ),
            Row("divergence_clip(delta=DELTA,cap=CAP)", {LOSS: "dppo_tv", LOW: "DELTA", HIGH: "DELTA", CAP: "CAP"}),
            Row(
                "divergence_clip(kind=kl,delta=DELTA,cap=CAP)",
                {LOSS: "dppo_kl", LOW: "DELTA", HIGH: "DELTA", CAP: "CAP"},
            ),
            Row(
                "clip(low=LOW)+clip_cov(fraction=SHARE,low=FROM,high=TO)",
                {LOSS: "clip_cov", LOW: "LOW", HIGH: "LOW", **{f"{COV}ratio": "SHARE", f"{COV}lb": "FROM"}}
                | {f"{COV}ub": "TO"},
                _DROPPED,
            ),
            Row(
                "clip(low=LOW)+clip_higher(high=HIGH)+clip_cov(fraction=SHARE,low=FROM,high=TO)",
                {LOSS: "clip_cov", LOW: "LOW", HIGH: "HIGH", **{f"{COV}ratio": "SHARE", f"{COV}lb": "FROM"}}
                | {f"{COV}ub": "TO"},
                _DROPPED,
            ),
            Row(
                "unclipped+cov_penalty(fraction=SHARE,beta=BETA)",
                {LOSS: "kl_cov", KL_COV: "SHARE", KL_COEF: "BETA"},
                "means and share are a micro-batch's",
            ),
            Row("reinforce+drift(beta=BETA)", {LOSS: "dro", DRO: "BETA"}),
        ),
        "denominator": (
            Row("", {LOSS: "sapo"}),
            Row("", {LOSS: "geo_mean"}),
            Row("token_mean", {MEAN: "token-mean"}),
            Row("seq_mean", {MEAN: "seq-mean-token-mean"}),
            Row("seq_sum", {MEAN: "seq-mean-token-sum"}),
            Row("constant_length(length=LENGTH)", {MEAN: "seq-mean-token-sum-norm", LENGTH: "LENGTH"}),
            Row(
                "constant_length",
                {LENGTH: None, MEAN: "seq-mean-token-sum-norm"},
                "divides by the width to which a micro-batch is padded, here by the response limit",
            ),
        ),
        "divergence": (
            Row("", {KL: False}),
            Row("kl(beta=BETA,clamp=20)", {KL: True, BETA: "BETA", KIND: ("low_var_kl", "k3")}),
            Row("kl(beta=BETA,estimator=k1)", {KL: True, BETA: "BETA", KIND: ("kl", "k1")}),
            Row("kl(beta=BETA,estimator=k2)", {KL: True, BETA: "BETA", KIND: ("mse", "k2")}),
            Row(
                "kl(beta=BETA,estimator=k2)",
                {KIND: ("k3+", "k1+", "low_var_kl+", "kl+"), KL: True, BETA: "BETA"},
                "the value is that of k1 or k3; its gradient is k2's, which is what is taken here",
            ),
        ),
        "entropy": (Row("", {ENTROPY: 0}), Row("entropy_bonus(coefficient=WEIGHT)", {ENTROPY: "WEIGHT"})),
        "schedule": (Row("", {EPOCHS: 1}),),
    },
    elsewhere=(
        "data.",
        "trainer.",
        "actor_rollout_ref.model.",
        "actor_rollout_ref.rollout.",
        "actor_rollout_ref.ref.",
        "actor_rollout_ref.actor.optim.",
        "actor_rollout_ref.actor.fsdp_config.",
        "actor_rollout_ref.actor.megatron.",
        "actor_rollout_ref.actor.checkpoint.",
        "actor_rollout_ref.actor.strategy",
        "actor_rollout_ref.actor.ppo_mini_batch_size",
        "actor_rollout_ref.actor.ppo_micro_batch_size",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
        "actor_rollout_ref.actor.use_dynamic_bsz",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
        "actor_rollout_ref.actor.ulysses_sequence_parallel_size",
        "actor_rollout_ref.actor.use_torch_compile",
        "actor_rollout_ref.actor.grad_clip",
        "actor_rollout_ref.hybrid_engine",
        "algorithm.filter_groups.max_num_gen_batches",
        "reward.reward_kwargs.overlong_buffer_cfg.log",
        "reward.reward_kwargs.max_resp_len",
        "reward.reward_manager.",
        "reward_model.reward_manager",
        "model_engine",
        "ray_kwargs.",
    ),
    other_names={
        f"reward_model.overlong_buffer.{it}": f"{OVERLONG}{it}" for it in ("enable", "len", "penalty_factor", "log")
    }
    | {f"reward_model.reward_kwargs.overlong_buffer_cfg.{it}": f"{OVERLONG}{it}" for it in ("enable", "len")}
    | {"reward_model.reward_kwargs.overlong_buffer_cfg.penalty_factor": f"{OVERLONG}penalty_factor"},
)
