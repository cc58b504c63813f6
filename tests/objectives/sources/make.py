"""Runs other people's functions on the batches of this package and writes what they give into `vectors.json`.

    python -m tests.objectives.sources.make FOLDER

FOLDER has a git directory `OWNER+NAME/repo` for each repository that `CHECKS` names. Functions are taken as they stand
at the commit, without decorators and annotations; what they call is either from the same file or stands in here.
"""

import ast
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from tests.objectives.sources.batches import SEEDS, projected, source_case
from tests.objectives.sources.losses import (
    Config,
    Loss,
    fipo,
    gdpo,
    gpg,
    gvpo,
    hapo,
    masked_mean,
    openrlhf,
    otb,
    skywork,
    verl_fork,
    w_reinforce,
)


def source(folder: Path, repository: str, commit: str, path: str, names: list[str]) -> SimpleNamespace:
    """Functions, classes and methods of a file at a commit, by name."""
    git = folder / repository.replace("/", "+") / "repo"
    text = subprocess.run(
        ["git", "--git-dir", str(git), "show", f"{commit}:{path}"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, Any] = {
        "torch": torch,
        "np": np,
        "nn": torch.nn,
        "F": torch.nn.functional,
        "defaultdict": defaultdict,
        "round": round,
        "masked_mean": masked_mean,
        "verl_F": SimpleNamespace(masked_mean=masked_mean, masked_sum=lambda v, m, axis=None: (v * m).sum()),
        "get_ratio_stats": lambda *given: {},
        "AlgoConfig": int,
        "LossCalculator": SimpleNamespace(OTM="only-token-mean", TM="", SMTS="", SMTM="", SMTSN=""),
        "print": lambda *given: None,
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
            _plain(node)
            exec(compile(ast.Module([node], []), path, "exec"), found)
    return SimpleNamespace(**{name: found[name] for name in names})


def _plain(node: ast.FunctionDef | ast.ClassDef) -> None:
    node.decorator_list = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef):
            inner.returns, arguments = None, inner.args
            for argument in [*arguments.args, *arguments.kwonlyargs, *arguments.posonlyargs]:
                argument.annotation = None


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
}


def vectors(folder: Path, expression: str) -> list[list[float]]:
    """The projections of the source's push on every batch."""
    files, loss = CHECKS[expression]
    its = _together([source(folder, *file) for file in files])
    rows = []
    for seed in SEEDS:
        case = source_case(seed, expression)
        logp = torch.from_numpy(case.current.copy()).requires_grad_()
        entropy = torch.from_numpy(case.current_entropy.copy()).requires_grad_()
        push = torch.autograd.grad(loss(its, case, logp, entropy), (logp, entropy), allow_unused=True)
        by_logp, by_entropy = (np.zeros(case.mask.shape) if it is None else -it.numpy() for it in push)
        rows.append(projected(case, seed, by_logp, by_entropy))
    return rows


def _together(parts: list[SimpleNamespace]) -> SimpleNamespace:
    names: dict[str, Any] = {}
    for part in parts:
        names |= vars(part)
    for function in names.values():
        getattr(function, "__globals__", {}).update(names)
    return SimpleNamespace(**names)


def main() -> None:
    """Writes `vectors.json`."""
    torch.set_default_dtype(torch.float64)
    folder = Path(sys.argv[1])
    made = {expression: vectors(folder, expression) for expression in CHECKS}
    where = Path(__file__).with_name("vectors.json")
    where.write_text(json.dumps(made, indent=None, separators=(",", ":")).replace("]],", "]],\n") + "\n")


if __name__ == "__main__":
    main()
