"""verl's settings (`core_algos.py`, `ppo_trainer.yaml`).

Shell variables and Hydra's interpolations are not resolved: the file has values. Every loss is given its response mask,
advantages and old log-probs by the trainer, and divides by what the whole mini-batch counts.
"""

from dataclasses import replace

from objectives.peers.table import Bounded, PeerTable, Program, Rule, Shifted

ACTOR, CORRECTION = "actor_rollout_ref.actor.", "algorithm.rollout_correction."
ADVANTAGE, STANDARD = "algorithm.adv_estimator", "algorithm.norm_adv_by_std_in_grpo"
GAMMA = "algorithm.gamma"
LOSS, KL_COV, KL_COEF, DRO = (
    f"{ACTOR}policy_loss.{name}" for name in ("loss_mode", "kl_cov_ratio", "ppo_kl_coef", "dro_beta")
)
CLIP, LOW, HIGH, CAP = (f"{ACTOR}clip_ratio{name}" for name in ("", "_low", "_high", "_c"))
TAU_POS, TAU_NEG, EPOCHS, ENTROPY = (f"{ACTOR}{name}" for name in ("tau_pos", "tau_neg", "ppo_epochs", "entropy_coeff"))
COV = f"{ACTOR}policy_loss.clip_cov_"
MEAN, LENGTH = f"{ACTOR}loss_agg_mode", f"{ACTOR}loss_scale_factor"
KL, BETA, KIND = (f"{ACTOR}{name}" for name in ("use_kl_loss", "kl_loss_coef", "kl_loss_type"))
REWARD_KL, REWARD_KIND = "algorithm.use_kl_in_reward", "algorithm.kl_penalty"
CONTROL, REWARD_BETA, TARGET, HORIZON = (
    f"algorithm.kl_ctrl.{name}" for name in ("type", "kl_coef", "target_kl", "horizon")
)
FILTER, METRIC = "algorithm.filter_groups.enable", "algorithm.filter_groups.metric"
OVERLONG, LIMIT = "reward.reward_kwargs.overlong_buffer_cfg.", "reward.reward_kwargs.max_resp_len"
MANAGER = "reward.reward_manager.name"
SAMPLER, BOUND, NORMALISED = (f"{CORRECTION}rollout_is{name}" for name in ("", "_threshold", "_batch_normalize"))
REJECT, REJECTED = f"{CORRECTION}rollout_rs", f"{CORRECTION}rollout_rs_threshold"
BYPASS, BYPASS_LOSS = f"{CORRECTION}bypass_mode", f"{CORRECTION}loss_type"
TEACHER = "distillation.enabled"
TEACHES, TASK, AS_REWARD, COEF, MOST, TEACHER_CLIP, TEACHER_LOW, TEACHER_HIGH = (
    f"distillation.distillation_loss.{name}"
    for name in (
        *("loss_mode", "use_task_rewards", "use_policy_gradient", "distillation_loss_coef", "loss_max_clamp"),
        *("clip_ratio", "clip_ratio_low", "clip_ratio_high"),
    )
)
GVPO = f"{ACTOR}gvpo_beta"

_NO_CAP = 1e9
"""Above e^20, to which the ratio is clamped: a dual clip that never acts."""
_BOUNDS = (
    ("clip(low=LOW)", {LOW: "LOW", HIGH: "LOW"}),
    ("clip(low=LOW)+clip_higher(high=HIGH)", {LOW: "LOW", HIGH: "HIGH"}),
)
_REWARD = {REWARD_KL: True, REWARD_KIND: ("kl", "k1"), CONTROL: "fixed", REWARD_BETA: "BETA"}
_LATE = {f"{OVERLONG}enable": True, f"{OVERLONG}penalty_factor": 1.0, MANAGER: "dapo"}
_BUFFER = "reward_model.overlong_buffer."
_FORMER = {_BUFFER: OVERLONG}
_KWARGS = dict.fromkeys((OVERLONG, OVERLONG.replace("reward.", "reward_model.")), _BUFFER)
_IN_RECIPES = {**_FORMER, "data.max_response_length": LIMIT}
_TEACHER_ALONE = {TEACHER: True, TASK: False}
"""Distillation without the task's rewards: its loss is all that is left of the objective (`distillation_ppo_loss`)."""
_TEACHER_ADVANTAGE = {**_TEACHER_ALONE, AS_REWARD: True, TEACHES: ("k1", "kl")}
_MEANS = (
    Rule("token_mean", {MEAN: "token-mean"}),
    Rule("seq_mean", {MEAN: "seq-mean-token-mean"}),
    Rule("seq_sum", {MEAN: "seq-mean-token-sum"}),
    Rule("constant_length(length=LENGTH)", {MEAN: "seq-mean-token-sum-norm", LENGTH: "LENGTH"}),
    Rule(
        "constant_length",
        {LENGTH: None, MEAN: "seq-mean-token-sum-norm"},
        "divides by the width to which a micro-batch is padded, here by the response limit",
    ),
)
_OLD = (
    "old log-probs are those of the engine, so that the clip sees its mismatch too; without the part, "
    "rlzoo train rollout.old_logp=engine gives them to every part that reads old ones"
)
_DROPPED = "drawn among the tokens that the clip leaves; means and share are a micro-batch's"
_ONE_ADVANTAGE = "geo_mean takes the mean of a response's advantages, here each token has its own"
_ONE_WEIGHT = "a response is weighted by the geometric mean of its tokens' weights, here each token by its own"
_REJECTED_WHOLLY = "what is rejected also leaves the divergence, the entropy and statistics of the batch"
_DIVERGENCES = tuple(f"{of}_{kind}" for of in ("token", "seq_sum", "seq_mean", "seq_max") for kind in ("k2", "k3"))
_APART = "it is clipped apart from the rewards' loss, here advantages add up; with k1 and without rewards it is opd"
_REFUSED = "verl refuses it; use_policy_gradient=True is opd, with use_task_rewards=False"
_DDOF = "the variance has ddof 1, here 0"
_OF_RECIPE = "recipe/gvpo alone has that loss; it divides by micro-batches, a constant factor"
_NO_LENGTHS = "only the dapo manager punishes long responses"
_NOT_WEIGHED = "its weights multiply the teacher's advantage, here that is added after they have acted"
_NO_NUMBERS = "its clip_ratio_low and clip_ratio_high have to be numbers, and its loss_max_clamp one or null"
_NOT_COUNTED = "its loss takes the mean per response whatever loss_agg_mode says"

VERL = PeerTable(
    name="verl",
    adapter="python -m objectives.adapters.verl",
    absent={f"{OVERLONG}enable": False, f"{OVERLONG}len": None, f"{OVERLONG}penalty_factor": 1.0}
    | {LIMIT: None, MANAGER: "naive", GVPO: 0.1},
    instead={LOW: CLIP, HIGH: CLIP, TEACHER_LOW: TEACHER_CLIP, TEACHER_HIGH: TEACHER_CLIP},
    stages={
        "reward": (
            Rule("", _TEACHER_ALONE),
            Rule("", {f"{OVERLONG}enable": False}),
            Rule("", {MANAGER: ("naive", "remote", "gdpo", "prime", "batch"), f"{OVERLONG}enable": True}, _NO_LENGTHS),
            Rule("soft_overlong(max_length=LIMIT,cache=LEN)", {f"{OVERLONG}len": "LEN", LIMIT: "LIMIT", **_LATE}),
            Rule(
                "soft_overlong",
                {f"{OVERLONG}len": None, LIMIT: None, **_LATE},
                f"it and {LIMIT} have to be given; a fifth of the response limit, and the limit, are what is meant",
            ),
            Rule(
                "soft_overlong(max_length=LIMIT)",
                {f"{OVERLONG}len": None, LIMIT: "LIMIT", **_LATE},
                "it has to be given; a fifth of the response limit is what is meant",
            ),
            Rule(
                "soft_overlong(cache=LEN)",
                {LIMIT: None, f"{OVERLONG}len": "LEN", **_LATE},
                "it has to be given; the response limit is what is meant",
            ),
        ),
        "divergence in the reward": (
            Rule("", _TEACHER_ALONE),
            Rule("", {REWARD_KL: False}),
            Rule(
                None,
                {CONTROL: "adaptive", REWARD_KL: True, TARGET: "TARGET", HORIZON: "HORIZON"},
                "it moves the coefficient of the divergence towards a target",
            ),
            *(
                Rule(f"kl_reward(beta=BETA{to_go})", {**_REWARD, **others}, why)
                for to_go, others, why in (
                    (",to_go=true", {ADVANTAGE: "reinforce_plus_plus", LOSS: "geo_mean"}, _ONE_ADVANTAGE),
                    (",to_go=true", {ADVANTAGE: "reinforce_plus_plus"}, ""),
                    ("", {}, ""),
                )
            ),
        ),
        "selection": (
            Rule("", {FILTER: False}),
            Rule("dynamic_sampling", {FILTER: True, METRIC: "acc"}),
            Rule(
                "dynamic_sampling",
                {FILTER: True},
                "groups go by whether their values of the metric are equal, here by whether all are right or wrong",
            ),
        ),
        "advantage": (
            Rule("no_reward", _TEACHER_ALONE, also={ADVANTAGE: "grpo"}),  # with gae there is a value model, too
            Rule("group_norm", {ADVANTAGE: ("grpo", "grpo_vectorized"), STANDARD: True}),
            Rule("group_norm(eps=EPS)", {ADVANTAGE: "grpo", STANDARD: True}, "adds 1e-6 to the deviation"),
            Rule("group_center", {ADVANTAGE: ("grpo", "grpo_vectorized"), STANDARD: False}),
            Rule("leave_one_out", {ADVANTAGE: ("rloo", "rloo_vectorized")}),
            Rule("optimal_baseline", {ADVANTAGE: "opo"}),
            Rule(
                "optimal_token_baseline(alone=reward)",
                {ADVANTAGE: "optimal_token_baseline"},
                "needs actor.calculate_sum_pi_squared=True, and counts the engine's weights squared",
            ),
            Rule("global_norm", {ADVANTAGE: "reinforce_plus_plus", GAMMA: 1}, _DDOF),
            Rule("center_then_global_norm(over=tokens)", {ADVANTAGE: "reinforce_plus_plus_baseline"}, _DDOF),
            Rule("scaled_center(counts=rewarded)", {ADVANTAGE: "gpg"}),
            Rule(None, {ADVANTAGE: "gae"}, "it needs a value model"),
            Rule(None, {ADVANTAGE: "remax"}, "it needs a greedy response per prompt"),
            Rule(
                "decoupled_norm(eps=1e-06,over=tokens)",
                {ADVANTAGE: "gdpo"},
                "its rewards are named by algorithm.gdpo_reward_keys, here they are those of task.reward",
            ),
        ),
        "sampling engine": (
            Rule("", {SAMPLER: None, BYPASS: False}),
            Rule(None, {SAMPLER: ("token", "sequence"), **_TEACHER_ALONE, BYPASS: False}, _NOT_WEIGHED),
            Rule(None, {NORMALISED: True, BYPASS: False}, "it divides the weights by their mean"),
            *(
                Rule(
                    f"sampler_correction({terms}{level})",
                    {SAMPLER: name, BOUND: bound, NORMALISED: False, BYPASS: False, **loss},
                    why,
                )
                for name, level, loss, why in (
                    ("token", "", {LOSS: "geo_mean"}, _ONE_WEIGHT),
                    ("token", "", {}, ""),
                    ("sequence", ",level=product", {}, ""),
                )
                for terms, bound in (("cap=CAP", "CAP"), ("cap=HIGH,low=LOW,outside=drop", Bounded("LOW", "HIGH")))
            ),
            Rule("sampler_ratio", {BYPASS: True, BYPASS_LOSS: "ppo_clip", LOSS: "vanilla"}, _OLD),
            Rule(
                None,
                {BYPASS: True, BYPASS_LOSS: "ppo_clip"},
                "bypass_mode puts its own clip in the place of loss_mode; write loss_mode=vanilla",
            ),
            Rule(None, {BYPASS: True, BYPASS_LOSS: "reinforce"}, "its weights and its loss are in one, without a clip"),
        ),
        "rejection": (
            Rule("", {REJECT: None}),
            Rule(None, {REJECT: _DIVERGENCES}, "it bounds an estimate of the divergence, here the ratio is bounded"),
            Rule(None, {BYPASS: True}, "in bypass_mode it rejects again in every update"),
            *(
                Rule(
                    f"sampler_mask(low=LOW,high=HIGH{level})",
                    {REJECT: name, REJECTED: Bounded("LOW", "HIGH", inverse=True), **mean},
                    _REJECTED_WHOLLY,
                )
                for name, level, mean in (
                    ("token_k1", ",level=token,shrinks=true", {MEAN: "seq-mean-token-mean"}),
                    ("token_k1", ",level=token", {}),
                    ("seq_sum_k1", ",level=product", {}),
                    ("seq_mean_k1", "", {}),
                )
            ),
        ),
        "loss": (
            *(
                Rule(
                    f"teacher_advantage(source=current{bound})+{clip}+dual_clip",
                    {**_TEACHER_ADVANTAGE, MOST: most, TEACHER_LOW: bounds[LOW], TEACHER_HIGH: bounds[HIGH]},
                )
                for bound, most in (("", None), (",clamp=MOST", "MOST"))
                for clip, bounds in _BOUNDS
            ),
            Rule(None, {TEACHES: ("k1", "kl"), **_TEACHER_ADVANTAGE}, _NO_NUMBERS),
            *(
                Rule(f"{clip}{dual}", {LOSS: "vanilla", **bounds, CAP: cap})
                for dual, cap in (("", _NO_CAP), ("+dual_clip(cap=CAP)", "CAP"))
                for clip, bounds in _BOUNDS
            ),
            *(Rule(f"sequence_ratio+{clip}", {LOSS: "gspo", **bounds}) for clip, bounds in _BOUNDS),
            Rule(
                "soft_gate(tau_pos=POS,tau_neg=NEG)+seq_mean",
                {LOSS: "sapo", TAU_POS: "POS", TAU_NEG: "NEG"},
                _NOT_COUNTED,
            ),
            Rule(
                "geometric_ratio(low=LOW,high=HIGH)+unclipped+seq_mean",
                {LOSS: "geo_mean", LOW: "LOW", HIGH: "HIGH"},
                "the mean is a micro-batch's, over its rows, and micro-batches weigh the same",
            ),
            Rule("reinforce", {LOSS: "gpg"}),
            Rule("cispo(low=LOW,high=HIGH)", {LOSS: "cispo", LOW: Shifted("LOW", most=1.0), HIGH: "HIGH"}),
            *(
                Rule(
                    f"divergence_clip({kind}delta=DELTA,cap=CAP)", {LOSS: name, LOW: "DELTA", HIGH: "DELTA", CAP: "CAP"}
                )
                for name, kind in (("dppo_tv", ""), ("dppo_kl", "kind=kl,"))
            ),
            *(
                Rule(
                    f"{clip}+clip_cov(fraction=SHARE,low=FROM,high=TO)",
                    {LOSS: "clip_cov", **bounds, f"{COV}ratio": "SHARE", f"{COV}lb": "FROM", f"{COV}ub": "TO"},
                    _DROPPED,
                )
                for clip, bounds in _BOUNDS
            ),
            Rule(
                "unclipped+cov_penalty(fraction=SHARE,beta=BETA)",
                {LOSS: "kl_cov", KL_COV: "SHARE", KL_COEF: "BETA"},
                "means and share are a micro-batch's",
            ),
            Rule("reinforce+drift(beta=BETA)", {LOSS: "dro", DRO: "BETA"}),
            Rule("group_variance(beta=BETA)+seq_sum", {LOSS: "gvpo", GVPO: "BETA"}, _OF_RECIPE, read_only=True),
        ),
        "denominator": (
            *(replace(rule, settings={**rule.settings, **_TEACHER_ALONE}) for rule in _MEANS),
            Rule("", {LOSS: "sapo"}),
            Rule("", {LOSS: "geo_mean"}),
            Rule("", {LOSS: "gvpo"}),
            *_MEANS,
        ),
        "divergence": (
            Rule("", _TEACHER_ALONE),
            Rule("", {KL: False}),
            Rule("kl(beta=BETA,clamp=20)", {KL: True, BETA: "BETA", KIND: ("low_var_kl", "k3")}),
            Rule("kl(beta=BETA,estimator=k1)", {KL: True, BETA: "BETA", KIND: ("kl", "k1")}),
            Rule("kl(beta=BETA,estimator=k2)", {KL: True, BETA: "BETA", KIND: ("mse", "k2", "mse+", "k2+")}),
            Rule(
                "kl(beta=BETA,estimator=k2)",
                {KIND: ("k3+", "k1+", "low_var_kl+", "kl+"), KL: True, BETA: "BETA"},
                "the value is that of k1 or k3; its gradient is k2's, which is what is taken here",
            ),
        ),
        "teacher": (
            Rule("", {TEACHER: False}),
            Rule(None, {TEACHES: "forward_kl_topk"}, "it reads the teacher's likeliest tokens, here the sampled ones"),
            Rule("", _TEACHER_ADVANTAGE),
            Rule(None, {AS_REWARD: True}, _APART),
            Rule(None, {TEACHES: "k1", AS_REWARD: False}, _REFUSED),
            Rule(None, {TASK: False}, "nothing but the teacher's loss is left: that is +no_reward+teacher_kl"),
            *(
                Rule(f"teacher_kl(beta=BETA,{how})", {TEACHES: name, TEACHER: True, COEF: "BETA", MOST: None})
                for how, name in (("clamp=20", ("k3", "low_var_kl")), ("estimator=k2", ("k2", "mse")))
            ),
        ),
        "entropy": (
            Rule("", _TEACHER_ALONE),
            Rule("", {ENTROPY: 0}),
            Rule("entropy_bonus(coefficient=WEIGHT)", {ENTROPY: "WEIGHT"}),
        ),
        "schedule": (Rule("", {EPOCHS: 1}), Rule("epochs(count=COUNT)", {EPOCHS: "COUNT"})),
    },
    also_of_run=frozenset({MANAGER, ADVANTAGE}),
    reported=frozenset({"sum_pi_squared_old", "logp_teacher"}),
    elsewhere=(
        *("data.", "trainer.", "model_engine", "ray_kwargs.", "actor_rollout_ref.hybrid_engine"),
        *("reward_model.", "reward.", "custom_reward_function.", "critic."),
        *(
            f"{ACTOR}grad_clip",
            f"{OVERLONG}log",
            f"{ACTOR}calculate_sum_pi_squared",
            "algorithm.filter_groups.max_num_gen_batches",
        ),
        *(f"distillation.{name}" for name in ("teacher_models.", "teacher_key", "nnodes", "n_gpus_per_node")),
        # read where TEACHES or AS_REWARD is what nothing here does
        *(f"distillation.distillation_loss.{name}" for name in ("topk", "log_prob_min_clamp")),
        "distillation.distillation_loss.policy_loss_mode",
        *(f"actor_rollout_ref.{name}." for name in ("model", "rollout", "ref")),
        *(f"{ACTOR}{name}." for name in ("optim", "fsdp_config", "megatron", "veomni", "checkpoint")),
        *(f"algorithm.gdpo_reward_{name}" for name in ("keys", "weights")),
    ),
    other_names={
        "reward_model.reward_manager": MANAGER,
        "reward_model.reward_kwargs.max_resp_len": LIMIT,
        **{
            f"reward_model.reward_kwargs.overlong_buffer_cfg.{name}": f"{OVERLONG}{name}"
            for name in ("enable", "len", "penalty_factor", "log")
        },
    },
    former_names=_FORMER,
    programs={
        "recipe.entropy.": Program({MANAGER: "dapo"}, _IN_RECIPES),
        **dict.fromkeys(
            ("recipe.dapo.dapo_transfer_queue.", "recipe.flowrl."),
            Program({MANAGER: "dapo"}, _IN_RECIPES, _KWARGS),
        ),
        "recipe.dapo.": Program({MANAGER: "dapo"}),
    },
)
