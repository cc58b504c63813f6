"""Grades the responses that an evaluation has kept once more, with the grader as it is now."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from rlzoo.config import RegradeConfig, flat
from rlzoo.config.recorded import RecordedKeys, check_recorded
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.evaluation.kept import read_results, record_result
from rlzoo.evaluation.verifier import Verifier, load_verifier
from rlzoo.evaluation.voting import with_votes
from rlzoo.experiment.machine import environment
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines, refuse_link, write_json_lines
from rlzoo.records import COUNT, KEYS, NUMBER, PROMPT, TEXT, TEXT_OR_NOTHING, Fields
from rlzoo.rollout.environment import environment_of
from rlzoo.tasks.base import Problem, Task
from rlzoo.tasks.grading import Graded, GraderPool
from rlzoo.tasks.regrading import grading_config, grading_task, problem_of

Record = dict[str, Any]
Change = tuple[Record, Record]
"""A response's record before and after it was graded again."""
NEEDED = Fields(
    {
        **{"problem": TEXT, "prompt": PROMPT, "answer": TEXT, "response": TEXT, "correct": NUMBER, "reward": NUMBER},
        **{"outcome": TEXT, "task": KEYS, "data": KEYS},
    },
    {"sample": COUNT, "tokens": NUMBER, "final_answer": TEXT_OR_NOTHING, "vote": TEXT_OR_NOTHING},
)


class RegradingView(Protocol):
    """What regrading tells whoever looks on."""

    def show_regraded(self, file: Path, target: Path, regraded: Sequence[Change], show: int) -> None:
        """A file is done: every record before and after. `show` changes are to be listed."""
        ...

    def judging(self) -> AbstractContextManager[Callable[[int, int], None]]:
        """Shows how many refused answers the verifier has judged, of how many."""
        ...

    def show_verified(self, records: Sequence[Record], model: str) -> None:
        """The verifier has judged what the rules refused."""
        ...


def regrade(files: Sequence[Path], config: RegradeConfig, view: RegradingView, trust: Sequence[str] = ()) -> list[Path]:
    """Regrades files of responses and writes the new records; returns where.

    Raises UserError before it grades any, also for a task or a reward from outside that a file names and `trust` does
    not cover.
    """
    files = _originals(files)
    targets = _targets(files, config)
    verifiers = [load_verifier(config.verifier, target.with_suffix(".verdicts.jsonl")) for target in targets]
    read = {file: _read(file) for file in files}
    check_recorded([keys for file, records in read.items() for keys in _recorded_keys(file, records)], trust=trust)
    for file, records in read.items():
        _check_grades_text(file, records)
    for file, target, verifier in zip(files, targets, verifiers, strict=True):
        records = regraded(read[file], config.workers, config.timeout, config.allow_unconfined)
        if verifier:
            with view.judging() as judged:
                records = verified(records, verifier, judged)
        write_json_lines(target, records)
        _write_figures(file, target, records, config.verifier.model)
        view.show_regraded(file, target, list(zip(read[file], records, strict=True)), config.show)
        if verifier:
            view.show_verified(records, config.verifier.model)
    return targets


def regraded(
    records: Sequence[Record], workers: int = 1, timeout: float = 10.0, allow_unconfined: bool = False
) -> list[Record]:
    """The records with the grades of today; a truncated response stays wrong unless its run graded such texts."""
    result: list[Record] = []
    for _, group in groupby(records, key=lambda record: json.dumps(record["task"], sort_keys=True)):
        result += _regraded(list(group), workers, timeout, allow_unconfined)
    return result


def _regraded(records: Sequence[Record], workers: int, timeout: float, allow_unconfined: bool) -> list[Record]:
    task = grading_task(records[0]["task"])
    problems = [problem_of(record) for record in records]
    responses = ["" if _counts_as_empty(record) else record["response"] for record in records]
    with GraderPool(task.grader, workers, timeout, allow_unconfined) as pool:
        graded = pool.grade(problems, responses)
        changed = _changed(task, records, problems, graded)
        return with_votes(pool, problems, list(changed))


def _changed(
    task: Task, records: Sequence[Record], problems: Sequence[Problem], graded: Sequence[Graded]
) -> Iterator[Record]:
    for record, problem, result in zip(records, problems, graded, strict=True):
        grade = {"correct": result.grade.correct, "reward": result.grade.reward}
        outcome = {"outcome": "truncated" if record["outcome"] == "truncated" else result.outcome}
        answer = {"final_answer": None if _counts_as_empty(record) else task.final_answer(problem, record["response"])}
        yield {**record, **grade, **outcome, **(answer if "final_answer" in record else {})}


def verified(
    records: Sequence[Record], verifier: Verifier, judged: Callable[[int, int], None] = lambda done, of: None
) -> list[Record]:
    """The records with `verified`, which is 1 if the rules or the verifier accept the response, and its `verdict`.

    The verifier is asked about what the rules refuse, but not about responses whose text earns nothing as it was cut.
    """
    refused = [i for i, record in enumerate(records) if record["correct"] != 1 and not _counts_as_empty(record)]
    verdicts = dict(zip(refused, verifier([records[i] for i in refused], judged), strict=True))
    return [
        {**record, "verified": float(record["correct"] == 1 or verdicts.get(i) == "A"), "verdict": verdicts.get(i)}
        for i, record in enumerate(records)
    ]


def _recorded_keys(file: Path, records: Sequence[Record]) -> Iterator[RecordedKeys]:
    return (RecordedKeys(file, flat({"task": task})) for task in _tasks(records))


def _tasks(records: Sequence[Record]) -> Iterable[dict[str, Any]]:
    """What the lines of a file say of their tasks, each once."""
    return {json.dumps(record["task"], sort_keys=True): record["task"] for record in records}.values()


def _check_grades_text(file: Path, records: Sequence[Record]) -> None:
    for task in _tasks(records):
        if not environment_of(grading_config(task)).grades_text:
            raise UserError(
                f"{file} cannot be graded again: the rewards of task.name={task['name']} are those of its environment, "
                f"and do not follow from a response's text; rlzoo eval samples and grades anew"
            )


def _counts_as_empty(record: Record) -> bool:
    return record["outcome"] == "truncated" and not record["task"].get("grade_truncated", False)


def _read(file: Path) -> list[Record]:
    if not file.is_file():
        raise UserError(f"{file}: there is no such file; rlzoo regrade takes files of responses, FILE.jsonl")
    try:
        records = read_json_lines(file)
    except OSError as error:
        raise UserError(f"{file} is not readable: {error.strerror}") from None
    if not records:
        raise UserError(f"{file} holds no response")
    for number, record in enumerate(records, 1):
        if wrong := NEEDED.wrong(record):
            raise UserError(f"{file} line {number} cannot be graded again: it {wrong}")
    return records


def _originals(files: Sequence[Path]) -> list[Path]:
    """Without what an earlier call wrote beside another of the files, which a pattern such as *.jsonl finds too."""
    written = [_beside(file) for file in files]
    return [file for file in files if file not in written]


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.stem}.regraded.jsonl")


def _targets(files: Sequence[Path], config: RegradeConfig) -> list[Path]:
    """Where the new records go. Raises UserError rather than name a file that is read, unless that is asked for."""
    if not files:
        raise UserError("there is nothing to grade again; name files of responses: rlzoo regrade FILE.jsonl")
    if config.overwrite:
        if config.output:
            raise UserError(f"output={config.output} has no effect with overwrite=true; leave one of them out")
        return list(map(_inside_its_run, files))
    if not config.output:
        return [_beside(_inside_its_run(file)) for file in files]
    targets = [Path(config.output) / file.name for file in files]
    for target in targets:
        if targets.count(target) > 1:
            raise UserError(f"output={config.output}: two of the files are called {target.name}")
        if target.exists() and target.resolve() in [file.resolve() for file in files]:
            raise UserError(f"output={config.output} would replace {target}; overwrite=true does that")
    return targets


def _inside_its_run(file: Path) -> Path:
    """The file itself. Raises UserError if a link leads out of the run in whose folder it is named."""
    run = RunFolder(file.parent.parent)
    if run.config.exists():
        refuse_link(run / file.parent.name)
    return file


def _write_figures(file: Path, target: Path, records: Sequence[Record], verifier: str) -> None:
    """The figures of the new records, if `results.json` has those of the old; with the score of a verifier too."""
    entry = read_results(file.parent).get(file.stem)
    if entry is not None:
        figures = Evaluation.of(records).summary()
        if verifier:
            either = Evaluation.of([{**record, "correct": record["verified"]} for record in records]).accuracy
            figures["verified"] = {"by": verifier, "accuracy": either.mean, "low": either.low, "high": either.high}
        record_result(target, {**entry, "figures": figures, "regraded_with": environment()})
