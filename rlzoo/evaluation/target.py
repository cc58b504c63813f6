"""What is evaluated by itself: a run's last checkpoint or any model, on its task or on named benchmarks."""

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import try_to_load_from_cache

from rlzoo.config.command_keys import BenchmarksConfig, TrustConfig
from rlzoo.config.decoding import Decoding
from rlzoo.config.reading import flat, given_keys, load_config, own_words, read_recorded
from rlzoo.config.recorded import RecordedKeys, check_recorded
from rlzoo.config.schema import EVALUATES, MACHINE, keys
from rlzoo.config.sections import ColumnsConfig, Config, ModelConfig, TaskConfig
from rlzoo.config.words import check_effect, key_and_value, split_words
from rlzoo.errors import UserError
from rlzoo.experiment.check import check_keys, check_response_limit
from rlzoo.experiment.identity import task_sources
from rlzoo.experiment.progress import check_whole, newest_whole, read_progress
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import slug
from rlzoo.model.pretrained import locate
from rlzoo.tasks import check_task, refuse_idle_splits
from rlzoo.tasks.base import Problem
from rlzoo.tasks.benchmarks import Benchmark, Example, find, read_examples
from rlzoo.tasks.regrading import to_json

if TYPE_CHECKING:  # a wrong word is refused before transformers is imported
    from rlzoo.model.tokenizer import Tokenizer

PAPERS_DECODINGS = ["1.0/1.0", "0.7/0.9"]
_OfRun = tuple[RunFolder, Path]
"""A run and a checkpoint of it."""


@dataclass(frozen=True)
class Target:
    """What is evaluated: a model, on its task or on benchmarks."""

    config: Config
    folder: Path
    """Where the files of responses go."""
    run: Mapping[str, Any] | None
    """The folder of the run whose model it is, and after which step; None if it is not that of a run."""
    given: Set[str]
    """The keys that were set. Of the others some follow the benchmarks."""
    benchmarks: Sequence[Benchmark] = ()
    benchmarks_folder: str = ""
    examples: Sequence[Example] = ()
    instruction: str | None = None
    """For the prompts of benchmarks, if not each benchmark's own."""
    system_prompt: str = ""
    """For the prompts of benchmarks."""

    @property
    def of_a_run(self) -> bool:
        """Whether the model is that of a run, whose limits then hold."""
        return self.run is not None

    def check(self) -> None:
        """What can be checked before torch is imported. Raises UserError."""
        check_keys(self.config)
        locate(self.config.model)
        if not self.benchmarks:
            check_response_limit(self.config)
            check_task(self.config.task)
            refuse_idle_splits(self.config.task, self.given)


def read_target(name: str, words: Sequence[str]) -> Target:
    """What to evaluate of a run's folder (its last checkpoint that is whole), a model's folder or a hub name.

    Raises UserError for a key without effect, an unknown benchmark, a run without a checkpoint, and code from outside
    that only the run names.
    """
    trusted, words = own_words(words, TrustConfig)
    settings, benchmarks, words = _split(words)
    of_run = _run_and_checkpoint(Path(name))
    config, folder = _evaluation_config(name, of_run, words)
    _check_code(name, of_run, words, bool(benchmarks), trusted.trust)
    given = given_keys(words)
    if benchmarks and "evaluation.decodings" not in given:
        config = replace(config, evaluation=replace(config.evaluation, decodings=PAPERS_DECODINGS))
    return Target(
        config,
        folder,
        run=of_run and {"folder": str(of_run[0].path), "step": read_progress(of_run[1]).step},
        given=given,
        benchmarks=benchmarks,
        benchmarks_folder=settings.benchmarks_folder,
        examples=read_examples(settings.examples) if settings.examples else (),
        instruction=config.task.instruction if any(word.startswith("task.instruction=") for word in words) else None,
        system_prompt=config.task.system_prompt
        if any(word.startswith("task.system_prompt=") for word in words)
        else "",
    )


def _check_code(
    target: str, of_run: _OfRun | None, words: Sequence[str], on_benchmarks: bool, trust: Sequence[str]
) -> None:
    run = of_run[0] if of_run else None
    named = {} if run is None else keys_of_code(read_recorded(run.config), on_benchmarks)
    recorded = RecordedKeys(Path(target) if run is None else run.config, named)
    check_recorded([recorded], [flat(asdict(load_config(words)))], trust)


def keys_of_code(config: Config, on_benchmarks: bool = False) -> dict[str, Any]:
    """The keys of a run that may name code which an evaluation needs: the model's, the engine's, and the task's."""
    needed = ("model.", "rollout.", *([] if on_benchmarks else ["task."]))
    return {key: value for key, value in flat(asdict(config)).items() if key.startswith(needed)}


def _split(words: Sequence[str]) -> tuple[BenchmarksConfig, list[Benchmark], list[str]]:
    """What the words say of benchmarks, these, and the other words. Raises UserError for what has no effect."""
    asked, others = split_words("eval", words)
    of_benchmarks = [word for word in words if word not in others]
    if not any(word.startswith("benchmarks=") for word in of_benchmarks):
        if of_benchmarks:
            raise UserError(f"{of_benchmarks[0]!r} has no effect without benchmarks=")
        return asked, [], others
    check_effect("benchmarks", others)
    return asked, find(asked.benchmarks), others


def _evaluation_config(target: str, of_run: _OfRun | None, words: Sequence[str]) -> tuple[Config, Path]:
    for word in words:
        if word.startswith("model.name=") or (of_run and word.startswith("model.revision=")):
            raise UserError(f"{word!r} has no effect on an evaluation of {target}; leave it out")
    chosen = [word.partition("=")[2] for word in words if word.startswith("output=")]
    if of_run is None:
        folder = Path(chosen[-1] if chosen else f"evaluations/{slug(target)}")
        return load_config([*words, key_and_value("model.name", target)]), folder
    run, checkpoint = of_run
    config = run.read_config(words)
    config.model.name, config.model.revision = str(checkpoint), None
    beside = run / "evaluation" if checkpoint == run.last_checkpoint() else run / "evaluation" / checkpoint.name
    return config, Path(chosen[-1]) if chosen else beside


def _run_and_checkpoint(target: Path) -> _OfRun | None:
    """The run that a folder is, with its newest checkpoint that is whole, or whose checkpoint it is.

    None for any other model. Raises UserError for a run without a checkpoint, and for a damaged one.
    """
    if RunFolder(target).config.exists():
        run = RunFolder(target)
        checkpoint = newest_whole(run / "checkpoints")
        if checkpoint is None:
            raise UserError(f"{target} has no checkpoint yet; {run.resumed} goes on with it")
        return run, checkpoint
    run = RunFolder(target.absolute().parent.parent)
    if target.absolute().parent.name == "checkpoints" and run.config.exists():
        check_whole(target.absolute())
        return run, target.absolute()
    return None


# ---- what decides an evaluation: what two must share to be compared, or to be one ------------------------------------

_CHUNK = 2**20


def model_settings(config: ModelConfig, tokenizer: "Tokenizer") -> dict[str, Any]:
    """The model, by what its files hold or by its commit on the hub, and how it calculates."""
    template = tokenizer.backend.chat_template if tokenizer.uses_template else None
    return {
        "precision": config.precision,
        "attention": config.attention,
        "chat_template": None if template is None else digest([json.dumps(template, sort_keys=True)]),
        "weights": _weights(config),
    }


def settings_of(
    name: str,
    problems: Sequence[Problem],
    samples: int,
    source: TaskConfig,
    decoding: Decoding,
    config: Config,
    tokenizer: "Tokenizer",
) -> dict[str, Any]:
    """What decides the responses to a problem set, and their grades, beside the model."""
    decides = [key for key in keys(TaskConfig) if key.read_by & EVALUATES and not key.locates_data]
    decisive = {key.name.partition(".")[0] for key in decides if key.decides is not MACHINE}
    task: dict[str, Any] = {name: value for name, value in vars(source).items() if name in decisive}
    task |= {name: asdict(value) for name, value in task.items() if isinstance(value, ColumnsConfig)}
    return {
        "problem_set": name,
        "task": task,
        "problems": len(problems),
        "samples": samples,
        "decoding": asdict(decoding),
        "stop": list(config.evaluation.stop),
        "max_response_tokens": config.rollout.max_response_tokens,
        "engine": config.rollout.engine,
        **({"engine_args": dict(config.rollout.engine_args)} if config.rollout.engine_args else {}),
        "rows_per_batch": config.rollout.rows_per_batch,
        "seed": config.seed,
        "data": digest(
            json.dumps([problem.prompt, problem.answer, to_json(problem.data)], default=dict) for problem in problems
        ),
        "prompts": digest(json.dumps(tokenizer.encode(problem.prompt)) for problem in problems),
        **({"code": sources} if (sources := task_sources(source, config.rollout.engine)) else {}),
    }


def digest(texts: Sequence[str] | Iterator[str]) -> str:
    """Of texts in their order."""
    state = blake2b(digest_size=16)
    for text in texts:
        state.update(text.encode() + b"\0")
    return state.hexdigest()


def _weights(config: ModelConfig) -> str:
    """The digest of a folder; of a model on the hub the commit, or what was asked for."""
    source = locate(config)
    folder = Path(source.path)
    if not folder.is_dir():
        revision = config.revision or "main"
        cached = try_to_load_from_cache(source.path, "config.json", revision=revision)
        return Path(cached).parent.name if isinstance(cached, str) else revision
    return weights_digest(folder)


def weights_digest(folder: Path) -> str:
    """Of a model folder's weights and configuration."""
    state = blake2b(digest_size=16)
    for file in [folder / "config.json", *sorted(folder.glob("*.safetensors")), *sorted(folder.glob("*.bin"))]:
        state.update(file.name.encode() + b"\0")
        with file.open("rb") as content:
            while chunk := content.read(_CHUNK):
                state.update(chunk)
    return state.hexdigest()
