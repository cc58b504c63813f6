"""CPU and wall seconds of a training step: rlzoo with each rollout engine against TRL's GRPOTrainer, on the same work.

    python benchmarks/speed/step_time.py [--contenders rlzoo rlzoo-vllm trl-float32-32 ...] [--steps 5] [key=value ...]

Same model, prompts, chat template, sampling, loss (clip 0.2/0.28, mean over tokens, no KL, one update of all rollouts),
optimiser and `model.precision`. rlzoo's weights are float32; TRL's have the dtype in its name, and the number behind it
is `per_device_train_batch_size`; with `zoo` for `trl` it is our objective in TRL's trainer. The reward depends on the
response's length alone: every group has a gradient, and no rows can be left out. The contenders live in processes of
their own and take turns, one step at a time; the first step of each is not counted. TRL comes with the extra
`benchmarks`, vLLM with `vllm`. Further key=value words go to rlzoo; prompts, responses and length are also TRL's.
Prints a Markdown table: the wall's seconds, and CPU seconds of a contender's processes, which other work on the machine
changes little, in all and by phase: generation, then rewards and log-probs, then training. The ratio is CPU seconds per
sampled token to the TRL that takes fewest; on a GPU read the wall's seconds instead. Where memory does not hold them
all, --one-by-one lets each take all its steps before the next one starts.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from rlzoo.config import Config, load_config
from rlzoo.tasks.base import Grade, Problem

ROOT = Path(__file__).parents[2]
WORDS = [
    "objective=justrl",
    "rollout.max_response_tokens=64",
    "train.tokens_per_micro_batch=8192",
    "train.warmup_steps=0",
    "train.learning_rate=1e-6",
]
TRL = [f"trl-{dtype}-{rows}" for dtype in ("float32", "bfloat16") for rows in (8, 16, 32, 64, 128)]
INSIDE_TRL = [name.replace("trl", "zoo") for name in TRL]


def length_reward(text: str) -> float:
    """A reward that varies within every group."""
    return (len(text) % 7) / 6


@dataclass(frozen=True)
class LengthGrader:
    """rlzoo's view of that reward."""

    def __call__(self, problem: Problem, response: str) -> Grade:
        """The grade of a response."""
        return Grade(reward=length_reward(response), correct=length_reward(response))


# ---- contenders: each waits for a line on its standard input, takes a step, and says how long it took ---------------


def answer(values: dict[str, Any]) -> None:
    """Reports to the parent, with the memory in GiB that this process has had at most."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print("STEP " + json.dumps({**values, "memory GiB": memory}), flush=True)


def cpu_seconds() -> float:
    """Of this process and those that it has started: vLLM's engine, graders, also where they have ended."""
    process = psutil.Process()
    total = sum(process.cpu_times()[:4])
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += child.cpu_times().user + child.cpu_times().system
    return float(total)


class Clock:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), cpu_seconds()

    def answer(self, generate: float, score: float, tokens: int) -> None:
        """Reports a step; what is neither generation nor scoring is training."""
        wall, cpu = time.perf_counter() - self.wall, cpu_seconds() - self.cpu
        phases = {"generate": generate, "score": score, "train": cpu - generate - score}
        answer({"wall s": wall, "cpu s": cpu, **phases, "tokens": tokens})


def run_rlzoo(config: Config) -> None:
    """Steps of rlzoo's trainer."""
    from benchmarks.speed.step_time import LengthGrader  # as the grader's processes import it
    from rlzoo.experiment.check import check
    from rlzoo.model.accelerator import make_accelerator
    from rlzoo.rollout import sampler
    from rlzoo.training import step
    from rlzoo.training.run import RunFolder, load_trainer

    for module in (sampler, step):  # the phases in CPU seconds
        vars(module)["time"] = SimpleNamespace(perf_counter=cpu_seconds)
    with tempfile.TemporaryDirectory() as folder:
        experiment = check(replace(config, output=f"{folder}/run"))
        experiment = replace(experiment, task=replace(experiment.task, grader=LengthGrader()))
        with load_trainer(experiment, make_accelerator(config.model.precision), RunFolder(Path(folder))) as trainer:
            answer({})
            for _ in sys.stdin:
                clock = Clock()
                _, collected = trainer.step()
                phases = trainer.seconds
                score = phases["grade"] + phases["score"]
                clock.answer(phases["generate"] + phases["sync"], score, int(collected.rollouts.mask.sum()))


def run_trl(config: Config, loss: str, dtype: str, rows: int) -> None:
    """Steps of TRL's trainer with its loss or ours, weights of this dtype and micro-batches of so many responses."""
    import torch
    import transformers
    from datasets import Dataset
    from transformers import AutoModelForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    from objectives.adapters.trl import ZooGRPOTrainer
    from rlzoo.experiment.check import check
    from rlzoo.model.policy import load_policy

    experiment = check(config)
    rollout, prompts = config.rollout, experiment.problems(0, 2000)
    folder = tempfile.mkdtemp()
    policy = load_policy(config.model, experiment.tokenizer)
    policy.save(Path(folder))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    total = rollout.prompts_per_step * rollout.responses_per_prompt
    arguments = GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=total // rows,
        num_generations=rollout.responses_per_prompt,
        max_completion_length=rollout.max_response_tokens,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        **({"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28, "beta": 0.0} if loss == "trl" else {}),
        bf16=config.model.precision == "bfloat16",
        gradient_checkpointing=False,
        optim="adamw_torch_fused",
        learning_rate=config.train.learning_rate,
        lr_scheduler_type="constant",
        max_steps=10_000,
        use_cpu=not torch.cuda.is_available(),
        save_strategy="no",
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
    )

    trainer_class: Any = GRPOTrainer if loss == "trl" else ZooGRPOTrainer

    class Timed(trainer_class):
        generating, collecting, tokens = 0.0, 0.0, 0

        def _generate(self, *given: Any, **named: Any) -> Any:
            started = cpu_seconds()
            result = super()._generate(*given, **named)
            self.generating += cpu_seconds() - started
            return result

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            started = cpu_seconds()
            result = super()._generate_and_score_completions(inputs)
            self.collecting += cpu_seconds() - started
            self.tokens += int(result["completion_mask"].sum())
            return result

    class OnDemand(transformers.TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            if not sys.stdin.readline():
                os._exit(0)
            trainer.generating, trainer.collecting, trainer.tokens, self.clock = 0.0, 0.0, 0, Clock()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.clock.answer(trainer.generating, trainer.collecting - trainer.generating, trainer.tokens)

    trainer = Timed(
        model=model,
        reward_funcs=lambda completions, **_: [length_reward(c[-1]["content"]) for c in completions],
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": [dict(m) for m in messages(p)]} for p in prompts]),
        processing_class=experiment.tokenizer.backend,
        callbacks=[OnDemand()],
        **({} if loss == "trl" else {"objective": config.objective}),
    )
    answer({})
    trainer.train()


def messages(problem: Problem) -> list[dict[str, str]]:
    """A problem as chat messages."""
    if isinstance(problem.prompt, str):
        return [{"role": "user", "content": problem.prompt}]
    return [dict(message) for message in problem.prompt]


# ---- the referee -----------------------------------------------------------------------------------------------------


@dataclass
class Contender:
    """A child process that takes steps when told to."""

    name: str
    process: subprocess.Popen[str]

    def step(self, ask: bool = True) -> dict[str, float]:
        """One step, or only the announcement that it is ready."""
        assert self.process.stdin is not None and self.process.stdout is not None
        if ask:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("STEP "):
                return dict(json.loads(line.removeprefix("STEP ")))
        raise SystemExit(f"{self.name} ended with status {self.process.wait()}")


def contenders(names: list[str], words: list[str]) -> Iterator[Contender]:
    """Starts each and waits until it is ready."""
    for name in names:
        command = [sys.executable, __file__, "--only", name, *words]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )
        contender = Contender(name, process)
        contender.step(ask=False)
        yield contender


def main() -> None:
    """Runs the contenders in turn and prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--contenders", nargs="+", default=["rlzoo", "trl-float32-32"])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--one-by-one", action="store_true")
    parser.add_argument("--config", default="configs/smollm2.yaml")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    arguments, words = parser.parse_known_args()
    words = [*WORDS, *words]
    if arguments.only:
        engine = ["rollout.engine=vllm", "rollout.kv_cache_gib=1"] if arguments.only == "rlzoo-vllm" else []
        config = load_config([arguments.config, *words, *engine])
        if arguments.only in (*TRL, *INSIDE_TRL):
            loss, dtype, rows = arguments.only.split("-")
            run_trl(config, loss, dtype, int(rows))
        else:
            run_rlzoo(config)
        return
    names = arguments.contenders
    if unknown := set(names) - {"rlzoo", "rlzoo-vllm", *TRL, *INSIDE_TRL}:
        parser.error(f"--contenders {' '.join(unknown)}: not among rlzoo, rlzoo-vllm, {', '.join(TRL + INSIDE_TRL)}")
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for group in [[name] for name in names] if arguments.one_by_one else [names]:
        racing = list(contenders(group, ["--config", arguments.config, *words]))
        for number in range(arguments.steps + 1):
            for contender in racing:
                step = contender.step()
                print(f"step {number} {contender.name} {json.dumps(step)}", file=sys.stderr)
                if number:
                    results[contender.name].append(step)
        for contender in racing:
            contender.process.kill()
            contender.process.wait()
    show(results, load_config([arguments.config, *words]))


def show(results: dict[str, list[dict[str, float]]], config: Config) -> None:
    """Medians and ratios to TRL as Markdown."""
    from rlzoo.experiment.machine import environment

    shown = {"wall s": 2, "cpu s": 2, "generate": 2, "score": 2, "train": 2, "tokens": 0, "memory GiB": 1}
    machine, rollout = environment(), config.rollout
    versions = ", ".join(f"{name} {machine[name]}" for name in ("torch", "transformers", "vllm") if machine.get(name))
    print(f"    python {' '.join(sys.argv)}\n")
    steps = len(next(iter(results.values())))
    print(
        f"{config.model.name}, {rollout.prompts_per_step} prompts x {rollout.responses_per_prompt} responses x up to "
        f"{rollout.max_response_tokens} tokens, {config.model.precision}; medians of {steps} steps. "
        f"Commit {machine['commit']}, {machine['accelerator'] or machine['processor']}, "
        f"{machine['threads']} threads, {versions}.\n"
    )
    total = {name: [sum(step[key] for step in steps) for key in ("cpu s", "tokens")] for name, steps in results.items()}
    each = {name: 1000 * cpu / tokens for name, (cpu, tokens) in total.items()}
    best = min((each[name] for name in each if name in TRL), default=float("nan"))
    print(f"| | {' | '.join(shown)} | cpu ms a token | of TRL's |")
    print("|" + "---|" * 10)
    for name, taken in results.items():
        figures = [f"{statistics.median(step[key] for step in taken):.{digits}f}" for key, digits in shown.items()]
        print(f"| {' | '.join([name, *figures, f'{each[name]:.2f}', f'{each[name] / best:.2f}'])} |")


if __name__ == "__main__":
    main()
