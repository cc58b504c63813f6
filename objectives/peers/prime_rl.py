"""prime-rl's settings (`configs/trainer.py`, `configs/algorithm.py`): ratios to the engine, one global token mean."""

from objectives.peers.table import PeerTable, Rule

_LOSS = "trainer.loss."
_DPPO = {f"{_LOSS}type": "default", f"{_LOSS}dppo_mask_low": "DELTA", f"{_LOSS}dppo_mask_high": "DELTA"}
_IPO = {f"{_LOSS}type": "ipo", f"{_LOSS}ipo_threshold": "DELTA"}

PRIME_RL = PeerTable(
    name="prime-rl",
    version="559b447 of August 2026",
    defaults={"algo.type": "grpo", "algo.length_penalty": None, "algo.length_weighted_baseline": False}
    | {"algo.loss_aggregation": "token", f"{_LOSS}type": "default", f"{_LOSS}dppo_mask_low": 0.2}
    | {f"{_LOSS}dppo_mask_high": 0.2, f"{_LOSS}ipo_threshold": 0.1, f"{_LOSS}adv_tau": 1.0}
    | {f"{_LOSS}kl_tau": 1e-3},
    stages={
        "reward": (Rule("", {"algo.length_penalty": None}),),
        "advantage": (
            Rule("group_center", {"algo.type": "grpo", "algo.length_weighted_baseline": False}),
            Rule("optimal_baseline", {"algo.type": "grpo", "algo.length_weighted_baseline": True}),
            Rule("mean_norm", {"algo.type": "max_rl"}, "of the reward, here of correctness"),
            Rule(None, {"algo.type": "rae"}, "a baseline that is remembered for each agent"),
        ),
        "scale of the advantage": (Rule("", {f"{_LOSS}adv_tau": 1}),),
        "loss": (
            Rule("sampler_ratio+divergence_clip(delta=DELTA)", _DPPO),
            Rule("sampler_ratio+divergence_clip(delta=DELTA,side=both)", _IPO),
        ),
        "denominator": (
            Rule("token_mean", {"algo.loss_aggregation": "token"}),
            Rule("token_mean(scope=prompt)", {"algo.loss_aggregation": "prompt"}),
        ),
        "drift": (
            Rule("", {f"{_LOSS}kl_tau": 0}),
            Rule("drift(beta=BETA,estimator=square,to=sampler)", {f"{_LOSS}kl_tau": "BETA"}),
        ),
    },
    elsewhere=(
        *("max_steps", "deployment.", "model.", "wandb.", "inference.", "orchestrator.", "ckpt.", "trainer.model."),
        *("trainer.optim.", "trainer.scheduler.", "output_dir", "seq_len", "slurm.", "log.", "weight_broadcast."),
    ),
    other_names={
        f"orchestrator.algo.{name}": f"algo.{name}"
        for name in ("type", "length_penalty", "length_weighted_baseline", "loss_aggregation")
    },
)
