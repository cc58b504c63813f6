"""An objective of the zoo inside verl: the embedded model learns to add on Ray, on CPUs or a GPU.

    pip install './objectives[verl]'
    python examples/verl_sums.py objective=stapo steps=60 seed=0 output=runs/verl
    pip install seaborn; python examples/learning_curve.py runs/verl/log.jsonl

The settings are those of `rlzoo train objective=stapo`. Where there is no GPU, `verl_cpu.py` beside this file stands in
for one, and `verl_transformers.py` for the inference engine. verl's log has the accuracy on 512 held-out problems, 8
samples each, before and after. Words of verl's own come last.
"""

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rlzoo.tasks.base import Problem
from rlzoo.tasks.sums import Sums

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "rlzoo" / "embedded" / "sums"
STAND_INS = "examples.verl_cpu,examples.verl_transformers"
CPU = (
    "trainer.device=cpu",
    "actor_rollout_ref.rollout.name=transformers",
    "+ray_kwargs.ray_init.num_gpus=8",
    "ray_kwargs.ray_init.num_cpus=16",
    "+ray_kwargs.ray_init.include_dashboard=false",
    "+ray_kwargs.ray_init.object_store_memory=400000000",
    "actor_rollout_ref.model.use_remove_padding=false",
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    "+actor_rollout_ref.actor.fsdp_config.mixed_precision={param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}",
    "+actor_rollout_ref.ref.fsdp_config.mixed_precision={param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}",
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=false",
    "actor_rollout_ref.actor.use_torch_compile=false",
)
"""What takes the place of a GPU."""


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any) -> float:
    """1 for a right answer: what verl calls with a response."""
    return Sums().grader(Problem("", "", ground_truth), solution_str).correct


def write_data(problems: Sequence[Problem], path: Path) -> Path:
    """Problems as verl reads them."""
    from datasets import Dataset

    rows = [
        {
            "data_source": "sums",
            "prompt": [{"role": "user", "content": str(problem.prompt)}],
            "reward_model": {"style": "rule", "ground_truth": problem.answer},
            "extra_info": {"index": i},
        }
        for i, problem in enumerate(problems)
    ]
    Dataset.from_list(rows).to_parquet(path)
    return path


def words(steps: int, seed: int, output: Path) -> list[str]:
    """Words of verl's own: 64 prompts a step, 8 responses each, one update."""
    task = Sums()
    output.mkdir(parents=True, exist_ok=True)
    return [
        f"data.train_files={write_data(task.train, output / 'train.parquet')}",
        f"data.val_files={write_data(task.held_out[:512], output / 'held_out.parquet')}",
        "data.train_batch_size=64",
        "data.max_prompt_length=16",
        "data.max_response_length=24",
        "data.dataloader_num_workers=0",
        f"data.seed={seed}",
        f"actor_rollout_ref.model.path={MODEL}",
        "actor_rollout_ref.model.custom_chat_template='{{ messages[0].content }}'",
        "actor_rollout_ref.model.enable_gradient_checkpointing=false",
        "actor_rollout_ref.actor.strategy=fsdp2",
        "actor_rollout_ref.actor.ppo_mini_batch_size=64",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128",
        "actor_rollout_ref.actor.optim.lr=1.5e-4",
        "actor_rollout_ref.actor.optim.lr_warmup_steps=5",
        "actor_rollout_ref.rollout.n=8",
        f"actor_rollout_ref.rollout.seed={seed}",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=512",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=512",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        "actor_rollout_ref.rollout.val_kwargs.n=8",
        "actor_rollout_ref.rollout.val_kwargs.do_sample=true",
        "actor_rollout_ref.rollout.val_kwargs.temperature=1.0",
        f"reward.custom_reward_function.path={Path(__file__).resolve()}",
        "reward.num_workers=1",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        "trainer.logger=[console,file]",
        f"trainer.project_name={output}",  # the second logger writes PROJECT/EXPERIMENT.jsonl
        "trainer.experiment_name=log",
        "trainer.nnodes=1",
        "trainer.n_gpus_per_node=1",
        f"trainer.total_training_steps={steps}",
        f"trainer.test_freq={steps}",
        f"trainer.default_local_dir={output / 'checkpoints'}",
        f"hydra.run.dir={output / 'hydra'}",
    ]


def start(objective: str, own: Sequence[str]) -> None:
    """What `python -m objectives.adapters.verl` does, with the stand-ins where there is no GPU."""
    import torch

    on_cpu = not torch.cuda.is_available()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    if on_cpu:
        os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", STAND_INS)
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    sys.argv = ["", objective, *(CPU if on_cpu else ("actor_rollout_ref.rollout.name=vllm",)), *own]
    runpy.run_module("objectives.adapters.verl", run_name="__main__")


def main(arguments: Sequence[str]) -> None:
    """Writes the data and starts verl; its validation says how the model does before and after."""
    given = {"objective": "stapo", "steps": "60", "seed": "0", "output": "runs/verl"}
    rest = [word for word in arguments if word.split("=", 1)[0] not in given]
    given |= dict(word.split("=", 1) for word in arguments if word not in rest)
    own = words(int(given["steps"]), int(given["seed"]), Path(given["output"]).resolve())
    start(given["objective"], [*own, *rest])


if __name__ == "__main__":
    main(sys.argv[1:])
