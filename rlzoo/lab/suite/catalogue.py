"""Experiments by name: those of this package, and others as `my_module:EXPERIMENT` or `./my_file.py:EXPERIMENT`."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from rlzoo.config.recorded import is_outside
from rlzoo.errors import UserError, nearest
from rlzoo.lab.suite.experiment import Experiment
from rlzoo.tasks.outside import load_outside

_FOLDER = Path(__file__).parent / "experiments"


def own_names() -> list[str]:
    """The experiments of this package, of which none is imported for it."""
    return sorted(file.stem for file in _FOLDER.glob("[a-z]*.py"))


def check_names(written: Sequence[str]) -> None:
    """Refuses experiments that there are not, before any is imported. Raises UserError."""
    for name in written:
        if name in own_names() or is_outside(name):
            continue
        near = nearest(name, own_names()) or f"; there are {', '.join(own_names())}"
        raise UserError(f"experiments={name}: there is no such experiment{near}, or give my_file.py:EXPERIMENT")
    if len(set(written)) < len(written):
        raise UserError(f"experiments={','.join(written)}: each is named once")


def load_experiment(written: str) -> Experiment:
    """The experiment of this name. Raises UserError if there is none, or if it is not whole."""
    if written in own_names():
        experiment: Experiment = import_module(f"{__package__}.experiments.{written}").EXPERIMENT
        return experiment
    loaded = load_outside("experiments", written)
    if not isinstance(loaded, Experiment):
        raise UserError(f"experiments={written} is a {type(loaded).__name__}, not an Experiment of rlzoo.lab.suite")
    if loaded.name in own_names():
        raise UserError(f"experiments={written}: the name {loaded.name} is taken by one of rlzoo; choose another")
    return loaded
