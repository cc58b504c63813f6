"""A checkpoint of a run, as it lies in its folder, runs in lm-evaluation-harness and answers as it does here.

In an environment of its own: make test-harness.
"""

import json
import sys
from pathlib import Path

import lm_eval
from lm_eval.tasks import TaskManager

from rlzoo.files import read_json_lines, write_json_lines
from tests.processes import launch

TINY = ("train.steps=1", "rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "evaluation.problems=12")
TASK = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: PROBLEMS}}
test_split: test
output_type: generate_until
doc_to_text: "{{prompt}}"
doc_to_target: "{{response}}"
generation_kwargs: {until: [], do_sample: false, max_gen_toks: 16}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""


def test_a_checkpoint_answers_in_the_harness_as_it_does_here(tmp_path: Path) -> None:
    run = tmp_path / "run"
    launch([sys.executable, "-m", "rlzoo", "train", f"output={run}", *TINY])
    launch([sys.executable, "-m", "rlzoo", "eval", str(run), "evaluation.decodings=[0/1]", "evaluation.samples=1"])
    (responses,) = (run / "evaluation").glob("sums-T0-*.jsonl")
    ours = [{"prompt": record["prompt"], "response": record["response"]} for record in read_json_lines(responses)]
    write_json_lines(tmp_path / "problems.jsonl", ours)
    (tmp_path / "sums.yaml").write_text(TASK.replace("PROBLEMS", json.dumps(str(tmp_path / "problems.jsonl"))))
    (checkpoint,) = (run / "checkpoints").glob("step-*")
    found = lm_eval.simple_evaluate(
        model="hf",
        model_args=f"pretrained={checkpoint},dtype=float32",
        tasks=["sums"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        device="cpu",
        batch_size=4,
        bootstrap_iters=0,
    )
    theirs = {sample["doc"]["prompt"]: sample["resps"][0][0] for sample in found["samples"]["sums"]}
    assert theirs == {record["prompt"]: record["response"] for record in ours}
    assert found["results"]["sums"]["exact_match,none"] == 1
