"""Run folders made up from nothing, as a finished run would leave them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from objectives import parse
from rlzoo.comparing.finished_runs import read_runs
from rlzoo.comparing.grid_words import SCHEDULE
from rlzoo.comparing.leaderboard import Leaderboard, LeaderboardRow, make_leaderboard
from rlzoo.config import load_config, to_yaml
from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import write_json_lines

PROBLEMS, SAMPLES, STEPS = 12, 4, 5
AS_MADE = ("train.steps=5", "evaluation.problems=12", "evaluation.samples=4", "evaluation.decodings=[1/1,0.7/0.9]")
"""The settings of runs that `make_run` makes."""
DECODINGS = (Decoding(1.0, 1.0), Decoding(0.7, 0.9))


def make_run(folder: Path, objective: str = "grpo", seed: int = 0, accuracy: float = 0.5, *words: str) -> Path:
    """A run of the given accuracy on problems of different difficulty, with the schedule that a comparison has."""
    generator = np.random.default_rng([seed, len(objective), int(1000 * accuracy)])
    run = RunFolder(folder)
    folder.mkdir(parents=True)
    own = (f"objective={objective}", f"seed={seed}", f"output={folder}", f"train.steps={STEPS}")
    fixed = (f"evaluation.problems={PROBLEMS}", f"evaluation.samples={SAMPLES}", "evaluation.decodings=[1/1,0.7/0.9]")
    config = load_config([SCHEDULE, *own, *fixed, *words])
    run.config.write_text(to_yaml(config))
    run.objective.write_text(json.dumps({"key": parse(objective).key, "expression": objective}))
    (folder / "environment.json").write_text(json.dumps({"torch": "2.13.0", "commit": "0123abc", "vllm": None}))
    metrics = [
        {
            "step": step,
            "accuracy": accuracy * step / STEPS,
            "entropy": 0.5 - 0.05 * step,
            "gradient_norm": 1.0,
            "reward": 0.5,
            "length": 9.0,
            "truncated": 0.0,
            "groups_without_signal": 0.5,
            "updates_skipped": 0,
            "touched/clip/tokens": 0.01,
            "touched/clip/mass": 0.02,
        }
        for step in range(1, STEPS + 1)
    ]
    write_json_lines(run.metrics, metrics)
    write_json_lines(run.timings, [{"step": line["step"], "tokens": 100, "seconds": 0.5} for line in metrics])
    for decoding in DECODINGS:
        Evaluation(records(generator, accuracy), SAMPLES).save(run.evaluation(STEPS, decoding))
    run.end.write_text(json.dumps({"step": config.train.steps}))
    return folder


def evaluate_between(folder: Path, accuracies: Mapping[int, float], decodings: Sequence[Decoding] = DECODINGS) -> None:
    """Evaluations of a run that `make_run` made, of these accuracies after these steps."""
    run = RunFolder(folder)
    for step, accuracy in accuracies.items():
        for place, decoding in enumerate(decodings):
            generator = np.random.default_rng([step, place, *folder.name.encode()])
            Evaluation(records(generator, accuracy), SAMPLES).save(run.evaluation(step, decoding))


def records(generator: np.random.Generator, accuracy: float, samples: int = SAMPLES) -> list[dict[str, object]]:
    """An evaluation; problem i is as hard for every run."""
    rates = np.clip(accuracy + np.linspace(-0.3, 0.3, PROBLEMS), 0, 1)
    found = []
    for problem, rate in enumerate(rates):
        for sample in range(samples):
            correct = float(generator.random() < rate)
            found.append(
                {
                    "problem": f"p{problem}",
                    "prompt": f"{problem}+1=",
                    "answer": str(problem + 1),
                    "response": f"{problem + 1 if correct else 0}",
                    "correct": correct,
                    "reward": correct,
                    "outcome": "graded",
                    "tokens": 9,
                    "entropy": 0.3,
                    "sample": sample,
                    "final_answer": f"{problem + 1 if correct else 0}",
                }
            )
    return found


def board_of(*folders: Path) -> Leaderboard:
    """The leaderboard of runs, or of all that are in a folder."""
    runs, baseline, notes = read_runs([str(folder) for folder in folders])
    return make_leaderboard(runs, baseline, notes=notes)


def row_of(board: Leaderboard, name: str) -> LeaderboardRow:
    """The row that is called so."""
    return next(row for row in board.rows if str(row.name) == name)


def make_board(folder: Path) -> Leaderboard:
    """Two recipes, two seeds, two decodings."""
    return board_of(*(make_run(folder / f"{name}-{seed}", name, seed) for name in ("grpo", "stapo") for seed in (0, 1)))
