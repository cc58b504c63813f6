"""A run's model, with its card and curves, on the Hugging Face hub."""

import logging
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from rlzoo.config import to_yaml
from rlzoo.config.command_keys import PushConfig
from rlzoo.config.decoding import Decoding
from rlzoo.errors import UserError, one_line
from rlzoo.evaluation.kept import RESULTS, read_results
from rlzoo.evaluation.target import weights_digest
from rlzoo.experiment.progress import check_whole
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import encoded
from rlzoo.records import COUNT, SHARE, reading, text
from rlzoo.tasks.benchmarks import BENCHMARKS

MODEL_FILES = (
    *("config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "chat_template.jinja"),
)
"""What of a checkpoint is uploaded, with the shards of the weights; nothing else that lies there is."""
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")

_logger = logging.getLogger(__name__)


def push(run: str, name: str, config: PushConfig) -> str:
    """Uploads a run's last checkpoint as one commit of OWNER/MODEL; returns its address.

    It uploads the model's files, the curves, the card, the configuration and results on benchmarks. The card, the
    configuration and the results are written for the upload, without paths of this machine. Raises UserError if the run
    has no checkpoint or a damaged one, if one of the files that are read is a link, and if the hub refuses.
    """
    folder = RunFolder(Path(run))
    if not folder.config.exists():
        raise UserError(f"{run} is no run; rlzoo push takes the folder of one: rlzoo push runs/NAME OWNER/MODEL")
    checkpoint = folder.last_checkpoint()
    if checkpoint is None:
        raise UserError(f"{run} has no checkpoint yet; {folder.resumed} goes on with it")
    check_whole(checkpoint)
    files = list(_files(folder, checkpoint))

    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    from rlzoo.report.run_files import CARD, model_card, published_config

    operations = [CommitOperationAdd(path.name, path) for path in files]
    operations.append(CommitOperationAdd(folder.config.name, encoded(to_yaml(published_config(folder)))))
    operations.append(CommitOperationAdd(CARD, encoded(model_card(folder))))
    for result, entries in _eval_results(folder, checkpoint).items():
        operations.append(CommitOperationAdd(f".eval_results/{result}.yaml", encoded(yaml.safe_dump(entries))))
    api = HfApi()
    try:
        address = api.create_repo(name, private=config.private, exist_ok=True)
        message = f"Train with {folder.path.name}"
        api.create_commit(name, operations, commit_message=message, revision=config.revision or None)
    except HFValidationError as error:
        raise UserError(f"{name} is no name of a model on the hub, OWNER/MODEL: {one_line(error)}") from None
    except LocalTokenNotFoundError:
        raise UserError("no user is logged in to the hub: `hf auth login`, or a token in HF_TOKEN") from None
    except HfHubHTTPError as error:
        raise UserError(f"the hub at {api.endpoint} refused {name}: {one_line(error)}") from None
    except Exception as error:  # those of the connection, which versions of the hub's library name differently
        raise UserError(f"the hub at {api.endpoint} could not be reached for {name}: {one_line(error)}") from None
    return str(address)


def _eval_results(folder: RunFolder, checkpoint: Path) -> dict[str, list[dict[str, Any]]]:
    """What `rlzoo eval` measured of these weights, by benchmark and decoding, as leaderboards of the hub read it.

    A benchmark without a leaderboard there, or with problems that were not asked, gets no entry; a warning names it.
    Results that were graded again get none. Format: https://huggingface.co/docs/hub/eval-results. Raises UserError if
    the results are not readable.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    results, entries, left_out = folder / "evaluation", dict[str, list[dict[str, Any]]](), list[str]()
    with reading(results / RESULTS):
        kept = read_results(results)
        weights = weights_digest(checkpoint) if kept else ""
        for measured in kept.values():
            settings = measured["settings"]
            if "regraded_with" in measured or dict(settings.get("model", {})).get("weights") != weights:
                continue
            benchmark = BENCHMARKS.get(problem_set := text(settings["problem_set"]))
            if benchmark is None or not benchmark.hub_task or settings["problems"] != benchmark.rows:
                left_out.append(one_line(problem_set))
                continue
            accuracy, samples = measured["figures"]["accuracy"], settings["samples"]
            if not SHARE.holds(accuracy) or not COUNT.holds(samples):
                raise ValueError(f"accuracy={accuracy!r} is not {SHARE.name}, or samples={samples!r} {COUNT.name}")
            decoding = Decoding.parse("/".join(map(str, asdict(Decoding(**settings["decoding"])).values())))
            dataset, notes = benchmark.hub.partition(":")[0], f"avg@{samples}, {decoding}"
            entry = EvalResultEntry(dataset, benchmark.hub_task, round(100 * accuracy, 2), notes=notes)
            entries[f"{benchmark.name}-{decoding.slug}"] = eval_result_entries_to_yaml([entry])
    if left_out:
        _logger.warning(
            "%s: no entry in .eval_results/, as the hub has no leaderboard for it or not all problems were asked",
            one_line(", ".join(dict.fromkeys(left_out))),
        )
    return entries


def _files(folder: RunFolder, checkpoint: Path) -> Iterator[Path]:
    """The model and the curves.

    Raises UserError if one of them, what the card is made of, or a folder on the way, is a link.
    """
    shards = sorted(path.name for path in checkpoint.iterdir() if _SHARD.fullmatch(path.name))
    evaluated = (*folder.path.glob("evaluation/*.jsonl"), folder / "evaluation" / RESULTS)
    told = (folder.config, folder.objective, folder / "environment.json", *evaluated)
    for path in (*(checkpoint / name for name in (*MODEL_FILES, *shards)), folder.curves, *told):
        if not path.exists() and not path.is_symlink():
            continue
        inside = path.relative_to(folder.path)
        linked = next(
            (candidate for candidate in (path, *path.parents[: len(inside.parts) - 1]) if candidate.is_symlink()), None
        )
        if linked is not None or not path.is_file():
            raise UserError(
                f"{linked or path} is {'a link' if linked else 'no file'}, and rlzoo push uploads files alone; put "
                f"what is to be published in its place, or remove it"
            )
        if path not in told:
            yield path
