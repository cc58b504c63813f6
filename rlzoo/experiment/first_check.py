"""What is checked of a configuration before torch is imported, so that a wrong word costs no time."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

from objectives import parse
from rlzoo.config import Config, check_agreement
from rlzoo.errors import UserError, nearest
from rlzoo.model.pretrained import as_reference, as_teacher, errors_naming, locate
from rlzoo.rollout import check_engine_name
from rlzoo.tasks import check_task

_ALONE = ("aim", "clearml", "comet_ml", "dvclive", "mlflow", "swanlab", "trackio", "wandb")
TRACKERS = {"tensorboard": ("tensorboard", "tensorboardX"), **{name: (name,) for name in _ALONE}}
"""What Accelerate reports to -> the packages that do it, one of which must be installed."""


def check_words(config: Config) -> None:
    """Checks what keys say together, the objective, names of the model and the task, and trackers.

    Raises UserError or ObjectiveError.
    """
    check_agreement(config)
    parse(config.objective)
    check_engine_name(config.rollout.engine)
    check_trackers(config.log.trackers)
    locate(config.model)
    for key, other in (("model.teacher", as_teacher(config.model)), ("model.reference", as_reference(config.model))):
        if other is not None:
            with errors_naming(key):
                locate(other)
    if config.model.lora.rank and find_spec("peft") is None:
        raise UserError(
            f"model.lora.rank={config.model.lora.rank} needs the package peft; pip install 'rlzoo-llm[lora]', or leave "
            f"it out"
        )
    if config.train.optimizer == "adamw_8bit" and find_spec("torchao") is None:
        raise UserError(
            "train.optimizer=adamw_8bit needs the package torchao; pip install 'rlzoo-llm[torchao]', or leave it out"
        )
    check_task(config.task)


def with_modules_named(config: Config) -> Config:
    """The configuration with the module before each part from outside: the next process knows it by that alone."""
    objective = parse(config.objective)
    named = [f"{part.origin}:{part.name}" for part in objective.parts if part.origin]
    is_named = all(name in config.objective for name in named)
    return config if is_named else replace(config, objective=str(objective))


def check_trackers(names: Sequence[str]) -> None:
    """Refuses trackers that there are not, or that are not installed. Raises UserError."""
    for name in names:
        if name not in TRACKERS:
            known = nearest(name, TRACKERS) or f"; there are {', '.join(sorted(TRACKERS))}"
            raise UserError(f"log.trackers={name}: there is no such tracker{known}")
        if not any(map(find_spec, TRACKERS[name])):
            package = TRACKERS[name][0].replace("_", "-")
            raise UserError(f"log.trackers={name} is not installed; pip install {package}, or leave it out")
