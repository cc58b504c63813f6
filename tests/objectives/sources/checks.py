"""Which functions of which files each variant is held against, and how they are called."""

from tests.objectives.sources import frameworks, papers, shaping, teachers, turns, verl_losses
from tests.objectives.sources.losses import (
    Config,
    Loss,
    fipo,
    gdpo,
    gpg,
    gvpo,
    hapo,
    openrlhf,
    otb,
    skywork,
    verl_fork,
    w_reinforce,
)

BAPO = Config(
    clip_ratio=0.2,
    clip_ratio_low=0.2,
    clip_ratio_high=0.2,
    policy_loss=Config(
        ratio_lower_start=0.6,
        ratio_upper_start=1.2,
        ratio_lower_max=0.8,
        ratio_upper_max=2.0,
        ratio_lower_step=0.05,
        ratio_upper_step=0.05,
        adv_ratio_target=1.0,
        eps=1e-8,
    ),
)
DCPO = Config(clip_type="dynamic", clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.28, clip_ratio_c=10.0)
CORE = "verl/trainer/ppo/core_algos.py"
ENTROPY = ("PRIME-RL/Entropy-Mechanism-of-RL", "88505792fd97a11993445e93195145e3c1181955", CORE)
RLVR = ("TianHongZXY/RLVR-Decomposed", "a5d4e7c1df6016ebd7396bd6db83d885120adb6d", CORE)
RLHF = "3c3be6234e0cb353e76bb8019947db9dfe99fca7"
VERL = ("volcengine/verl", "b178a3cd56f58b2d502255daba591e92833930a7", CORE)
BEYOND = ("Shenzhi-Wang/Beyond-the-80-20-Rule-RLVR", "6f5dda6f70dbee207bea28705e5f96ce12eb98df", CORE)
JUSTRL = ("thunlp/JustRL", "cf444e9920b599c865ee6742c88dc162dcabcec2", f"train/{CORE}")
LOPTI = ("zhyang2226/AR-Lopti", "cbeb333376decdfe571fa8613bdebcfcc526628d")
AR_LOPTI = [
    (*LOPTI, CORE, ["compute_policy_loss", "agg_loss", "kl_penalty"]),
    (*LOPTI, "verl/trainer/ppo/ray_trainer.py", ["compute_reweight_advantage"]),
]
W_NAMES = ["compute_psr_nsr_outcome_advantage", "compute_policy_loss"]

CHECKS: dict[str, tuple[list[tuple[str, str, str, list[str]]], Loss]] = {
    "reinforce_pp(variant=authors)": (
        [("OpenRLHF/OpenRLHF", RLHF, "openrlhf/models/loss.py", ["PolicyLoss", "aggregate_loss"])],
        openrlhf(baseline=False),
    ),
    "reinforce_pp_baseline(variant=authors)": (
        [
            ("OpenRLHF/OpenRLHF", RLHF, "openrlhf/models/loss.py", ["PolicyLoss", "aggregate_loss"]),
            ("OpenRLHF/OpenRLHF", RLHF, "openrlhf/models/utils.py", ["compute_approx_kl"]),
        ],
        openrlhf(baseline=True),
    ),
    "gpg(variant=authors)": (
        [
            (
                "AMAP-ML/GPG",
                "e096da8ce527a1636272469cee383ba71ec4a511",
                "open-r1/src/open_r1/gpg_trainer.py",
                ["compute_loss"],
            )
        ],
        gpg,
    ),
    "m2po(variant=authors)": (
        [
            (
                "Infini-AI-Lab/M2PO",
                "af54a3e8feffb7a66a8258003aebefa37759cec0",
                CORE,
                [
                    "_solve_tau_from_sorted_delta2",
                    "_get_trust_region_tokens_delta_sq",
                    "kpo_clip_harmful_tokens",
                    "compute_m2po_policy_loss",
                    "agg_loss",
                ],
            )
        ],
        verl_fork("compute_m2po_policy_loss", {"M2_budget": 0.04, "miniclip_low": None, "miniclip_high": None}),
    ),
    "fipo": (
        [
            (
                "modelscope/ms-swift",
                "3602360a562313afbf2ef6065fdf61f271a2c5b9",
                "swift/rlhf_trainers/grpo_trainer.py",
                ["_compute_fipo_influence"],
            )
        ],
        fipo,
    ),
    "hapo(variant=authors)": (
        [
            (
                "starriver030515/HAPO",
                "7671dde3e268779a949954ec75ed3edda45f7e0a",
                CORE,
                [
                    "torch_quantile",
                    "compute_entropy_h",
                    "ada_clip",
                    "ada_advantage",
                    "compute_hapo_outcome_advantage",
                    "compute_grpo_outcome_advantage",
                    "compute_policy_loss",
                    "agg_loss",
                ],
            )
        ],
        hapo,
    ),
    "bapo(variant=authors)": (
        [
            (
                "WooooDyy/BAPO",
                "7287044444d5d578529ea464b45f090a36e8da3a",
                "recipe/bapo/policy_loss.py",
                ["_compute_effective_advantage", "_append_metric", "compute_policy_loss_bapo"],
            ),
            ("WooooDyy/BAPO", "7287044444d5d578529ea464b45f090a36e8da3a", CORE, ["agg_loss"]),
        ],
        verl_fork("compute_policy_loss_bapo", {"config": BAPO}),
    ),
    "clip_cov(variant=authors,fraction=1)-dynamic_sampling": (
        [(*ENTROPY, ["compute_policy_loss_clip_cov", "agg_loss"])],
        verl_fork("compute_policy_loss_clip_cov", {"cliprange": 1.0, "clip_ratio": 1.0}),
    ),
    "kl_cov(variant=authors)-dynamic_sampling": (
        [(*ENTROPY, ["compute_policy_loss_kl_cov", "agg_loss"])],
        verl_fork("compute_policy_loss_kl_cov", {"k_percent": 0.2, "ppo_kl_coef": 1}),
    ),
    "w_reinforce(variant=authors)": ([(*RLVR, W_NAMES)], w_reinforce("weighted")),
    "w_reinforce(variant=psr_authors)": ([(*RLVR, W_NAMES)], w_reinforce("positive")),
    "w_reinforce(variant=nsr_authors)": ([(*RLVR, W_NAMES)], w_reinforce("negative")),
    "gvpo": (
        [
            (
                "verl-project/verl-recipe",
                "48ea0a797fa29867ea0ad92aff7d284eec7d4be3",
                "gvpo/gvpo_core_algos.py",
                ["compute_policy_loss_gvpo"],
            )
        ],
        gvpo,
    ),
    "magic(variant=authors,start=0.003)-dynamic_sampling": (
        [
            (
                "SkyworkAI/Skywork-OR1",
                "64e96afa213ae89d0ad21932106d3b8aafe9ace2",
                CORE,
                ["EntController", "compute_policy_loss"],
            )
        ],
        skywork,
    ),
    "gdpo(variant=verl)": (
        [
            (
                "verl-project/verl",
                "1dda039b9c6311889a9c9a26040677e1254814f9",
                CORE,
                [
                    "compute_grpo_outcome_advantage",
                    "compute_gdpo_outcome_advantage",
                    "compute_policy_loss_vanilla",
                    "agg_loss",
                ],
            ),
            (
                "verl-project/verl",
                "1dda039b9c6311889a9c9a26040677e1254814f9",
                "verl/utils/torch_functional.py",
                ["masked_var", "masked_whiten"],
            ),
        ],
        gdpo,
    ),
    "otb(variant=verl)": (
        [
            (
                "verl-project/verl",
                "1dda039b9c6311889a9c9a26040677e1254814f9",
                CORE,
                ["compute_optimal_token_baseline_advantage", "compute_policy_loss_vanilla", "agg_loss"],
            )
        ],
        otb,
    ),
    "dcpo(variant=authors)": (
        [
            (
                "lime-RL/DCPO",
                "01787b0f61580961162faeb492defeb39f1eba53",
                CORE,
                ["get_clip_low_high", "compute_policy_loss_dcpo", "agg_loss"],
            )
        ],
        verl_fork("compute_policy_loss_dcpo", {"config": DCPO, "loss_agg_mode": "only-token-mean"}),
    ),
    "advantage_reweighting(variant=authors)": (AR_LOPTI, verl_losses.advantage_reweighting),
    "lopti(variant=authors)": (AR_LOPTI, verl_losses.lopti),
    "dapo(variant=authors)-dynamic_sampling": (
        [
            (*VERL, ["compute_grpo_outcome_advantage", "compute_policy_loss_vanilla", "agg_loss"]),
            (*VERL[:2], "verl/workers/reward_manager/dapo.py", ["DAPORewardManager"]),
        ],
        verl_losses.dapo,
    ),
    "entropy20(variant=authors)-dynamic_sampling": (
        [
            (
                *BEYOND,
                [
                    "compute_grpo_outcome_advantage",
                    "compute_policy_loss_vanilla",
                    "agg_loss",
                    "get_global_entropy_top_mask",
                ],
            ),
            (*BEYOND[:2], "verl/workers/reward_manager/dapo.py", ["DAPORewardManager"]),
        ],
        verl_losses.entropy20,
    ),
    "justrl(variant=authors)": ([(*JUSTRL, ["compute_policy_loss", "agg_loss"])], verl_losses.justrl),
    "stapo(variant=justrl)": ([(*JUSTRL, ["compute_policy_loss", "agg_loss"])], verl_losses.stapo),
    "stare(variant=authors)-dynamic_sampling": (
        [
            (
                "hp-luo/STARE",
                "bffb9e79c96c318340e35402993d60548d864315",
                CORE,
                ["STAREController", "compute_stare_token_weights", "compute_policy_loss_stare", "agg_loss"],
            )
        ],
        verl_losses.stare,
    ),
    "dppo(variant=authors)": (
        [
            (
                "sail-sg/Stable-RL",
                "c6af1d119c0fe30d16dd9a837d35fdf695acd226",
                CORE,
                ["compute_policy_loss_with_mask", "_compute_token_mask_for_policy_loss", "agg_loss"],
            )
        ],
        verl_losses.dppo,
    ),
    **frameworks.CHECKS,
    **papers.CHECKS,
    **shaping.CHECKS,
    **teachers.CHECKS,
    **turns.CHECKS,
}
