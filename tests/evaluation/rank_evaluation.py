"""Run by test_shared_evaluation.py in one process and in two: an evaluation of the tiny model, shared by them.

`python -m tests.evaluation.rank_evaluation MODEL FOLDER`, or the same under torchrun.
"""

import json
import sys
from pathlib import Path

import torch

from rlzoo.config import load_config
from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.evaluate import Evaluator, ProblemSet
from rlzoo.experiment.check import check
from rlzoo.model.accelerator import broadcast_from_main, make_accelerator
from rlzoo.model.policy import load_policy
from rlzoo.rollout.sampler import Sampler
from rlzoo.rollout.transformers_engine import TransformersEngine
from rlzoo.tasks.grading import GraderPool

PROBLEMS, SAMPLES, ROWS = 11, 3, 9


def main(model: str, folder: Path) -> None:
    """Writes the records, and what each process did."""
    accelerator = make_accelerator("float32")
    evaluated = (f"evaluation.problems={PROBLEMS}", f"evaluation.samples={SAMPLES}")
    sampled = (f"rollout.rows_per_batch={ROWS}", "rollout.max_response_tokens=12")
    experiment = check(load_config([f"model.name={model}", "task.problems=1", *evaluated, *sampled]))
    config, tokenizer = experiment.config, experiment.tokenizer
    engine = TransformersEngine(load_policy(config.model, tokenizer), tokenizer, config.rollout, config.model)
    with GraderPool(experiment.task.grader) as graders:
        sampler = Sampler(engine, graders, tokenizer)
        own: list[str] = []

        def sampling(problems, *arguments):  # type: ignore[no-untyped-def]
            own.extend(problem.id for problem in problems)
            return sampler(problems, *arguments)

        sampling.graders, sampling.environment, sampling.engine = graders, None, engine  # type: ignore[attr-defined]
        held_out = ProblemSet.held_out(config, experiment.task)
        evaluator = Evaluator(accelerator, sampling, held_out, config)  # type: ignore[arg-type]
        evaluation = evaluator(Decoding(1.0, 0.9))
    if evaluation is not None:
        evaluation.save(folder / "records.jsonl")
    waits = 0.0
    if torch.distributed.is_initialized():
        group = torch.distributed.group.WORLD
        waits = group._get_backend(torch.device("cpu")).options._timeout.total_seconds()  # type: ignore[union-attr]
    of_process = {
        "problems": own,
        "evaluated": evaluation is not None,
        "said": broadcast_from_main(accelerator.is_main_process),
        "waits": waits,
    }
    (folder / f"{accelerator.process_index}.json").write_text(json.dumps(of_process))
    accelerator.end_training()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
