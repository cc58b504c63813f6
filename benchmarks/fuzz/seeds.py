"""The whole files that are changed: a run, a grid, evaluations, data and settings, made once by the commands."""

import contextlib
import io
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas
from safetensors.numpy import save_file

from rlzoo.commands import main
from rlzoo.model.pretrained import EMBEDDED

_TINY = ("rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "train.steps=2", "task.problems=50")
SMALL = (*_TINY, "evaluation.problems=2", "evaluation.samples=1", "checkpoint.every=1", "log.responses=2")
SUITE = ("suite", "experiments=coin.py:EXPERIMENT", "seeds=2")
_COIN = Path(__file__).parents[2] / "tests" / "lab" / "suite" / "outside.py"
"""An experiment of two short steps."""
TRL = {
    "loss_type": "dapo",
    "beta": 0.0,
    "epsilon": 0.2,
    "epsilon_high": 0.28,
    "scale_rewards": "group",
    "temperature": 1,
}
VERL = {
    "algorithm": {"adv_estimator": "grpo", "use_kl_in_reward": False, "norm_adv_by_std_in_grpo": True},
    "actor_rollout_ref": {"actor": {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "loss_agg_mode": "token-mean"}},
}
TRL_LOG = "{'loss': '0.01', 'grad_norm': '0.3', 'reward': '0.5', 'entropy': '0.4', 'epoch': '0.1', 'step': '%d'}\n"
VERL_LOG = (
    "step:%d - actor/entropy:0.4 - actor/grad_norm:0.3 - critic/rewards/mean:0.5 - response_length/clip_ratio:0.1\n"
)


@dataclass(frozen=True)
class Seeds:
    """Where they lie."""

    folder: Path

    @property
    def grid(self) -> Path:
        """Two runs of two steps, with their checkpoints and one evaluation beside the training's own."""
        return self.folder / "grid"

    @property
    def run(self) -> Path:
        """One of them."""
        return self.grid / "grpo-0"

    @property
    def files(self) -> Path:
        """Data, tables, logs and settings."""
        return self.folder / "files"


def make_seeds(folder: Path) -> Seeds:
    """Makes all of them; the runs take a minute."""
    seeds = make_files(folder)
    if not seeds.grid.exists():
        _run("compare", "grpo", "seeds=0,1", *SMALL, f"output={seeds.grid}")
        _run("eval", str(seeds.run), "evaluation.decodings=0.7/0.9")
        _run("leaderboard", str(seeds.grid))
        _run("train", "objective=grpo", "model.lora.rank=2", *SMALL, f"output={folder / 'lora'}")
        for key in ("partial_tokens=2", "ahead=1"):
            name = key.partition("_")[0].partition("=")[0]
            _run("train", "objective=grpo", f"rollout.{key}", *SMALL, f"output={folder / name}")
        with contextlib.chdir(seeds.files):
            _run(*SUITE, f"output={folder / 'suite'}")
    return seeds


def _run(*words: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        status = main(list(words))
    if status:
        raise RuntimeError(f"rlzoo {' '.join(words)} ended with {status} and printed:\n{shown.getvalue()[-2000:]}")


def make_files(folder: Path) -> Seeds:
    """Makes what no model is needed for."""
    seeds = Seeds(folder)
    seeds.files.mkdir(parents=True, exist_ok=True)
    for name, content in _contents().items():
        (seeds.files / name).write_text(content, encoding="utf-8")
    pandas.read_json(seeds.files / "data.jsonl", lines=True).to_parquet(seeds.files / "data.parquet")
    pandas.read_csv(seeds.files / "results.csv").to_parquet(seeds.files / "results.parquet")
    shutil.copyfile(_COIN, seeds.files / "coin.py")
    shutil.copytree(EMBEDDED / "calculator", folder / "talker", dirs_exist_ok=True)
    shutil.copytree(EMBEDDED / "sums", folder / "adapted", dirs_exist_ok=True)
    _add_adapters(folder / "adapted")
    return seeds


def _add_adapters(model: Path) -> None:
    """As peft saves them, for one layer of a model in a folder."""
    shape = json.loads((model / "config.json").read_text())
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}
    written = {**config, "base_model_name_or_path": "someone/model", "megatron_config": {}, "megatron_core": "theirs"}
    (model / "adapter_config.json").write_text(json.dumps(written))
    layer = "base_model.model.model.layers.0.self_attn.q_proj.lora"
    width, size = shape["num_attention_heads"] * shape["head_dim"], shape["hidden_size"]
    weights = {f"{layer}_A.weight": np.zeros((2, size)), f"{layer}_B.weight": np.zeros((width, 2))}
    save_file({name: it.astype(np.float32) for name, it in weights.items()}, model / "adapter_model.safetensors")


def _contents() -> dict[str, str]:
    chat = [{"role": "user", "content": "1+2-1="}]
    rows = [{"question": f"{number}+1-1=", "answer": str(number)} for number in range(16)]
    rows_of_verl = [
        {"prompt": chat, "data_source": "x", "reward_model": {"ground_truth": str(number)}} for number in range(8)
    ]
    answers = [{"gold": "3", "response": "\\boxed{3}", "prompt": "1+2=", "id": number} for number in range(4)]
    metrics = [
        {"step": step, "reward": 0.5, "entropy": 0.4, "gradient_norm": 0.3, "truncated": 0.1} for step in range(1, 9)
    ]
    results = ["method,seed,problem,sample,value"]
    results += [f"{m},{s},p{p},{k},{(p + k) % 2}" for m in "ab" for s in (0, 1) for p in range(4) for k in (0, 1)]
    state = {"log_history": [{**line, "loss": 0.1} for line in metrics], "global_step": 8}
    table = ["step,reward,entropy", *(f"{it['step']},{it['reward']},{it['entropy']}" for it in metrics)]
    own = {"objective": "stapo(tau_p=0.01)+clip_higher", "train": {"steps": 3}, "seed": 1, "evaluation.samples": 2}
    return {
        "data.jsonl": _lines(rows),
        "verl.jsonl": _lines(rows_of_verl),
        "grade.jsonl": _lines(answers),
        "log.jsonl": _lines(metrics),
        "results.csv": "\n".join(results) + "\n",
        "trainer_state.json": json.dumps(state),
        "log.csv": "\n".join(table) + "\n",
        "trl.log": "".join(TRL_LOG % step for step in range(1, 9)),
        "verl.log": "".join(VERL_LOG % step for step in range(1, 9)),
        "own.yaml": json.dumps(own),
        "trl.json": json.dumps(TRL),
        "verl.json": json.dumps(VERL),
        "lines.yaml": "objective: dapo\ntrain:\n  steps: 4\n  learning_rate: 1.0e-4\nrollout:\n  prompts_per_step: 4\n",
    }


def _lines(records: list[dict[str, object]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)
