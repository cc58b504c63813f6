"""`rlzoo fit`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.completion import completed
from rlzoo.commands.key_table import key_table
from rlzoo.config import FitConfig, check_keys, check_ranges, keys, load_config, own_words
from rlzoo.config.zoo_names import check_names

SUMMARY = "predict the memory that an experiment takes of each GPU, and its hours, before anything is loaded"


def declare(parser: ArgumentParser) -> None:
    """Files and keys."""
    parser.epilog = key_table(keys(FitConfig)) + "\n\nAll keys of rlzoo train may stand beside them."
    words = parser.add_argument(
        "words", nargs="*", default=[], metavar="CONFIG.yaml | key=value", help="later ones win"
    )
    completed(words, keys(FitConfig))


def run(arguments: Namespace) -> int:
    """Prints what each phase takes, and the floor of the hours; 1 if it does not fit."""
    own, others = own_words(arguments.words, FitConfig)
    config = load_config(others)
    check_ranges(config)
    check_names(config.objective)
    check_keys(own)

    from objectives import parse
    from rlzoo.model.shape import shape_of
    from rlzoo.report.memory import print_fit, print_hours
    from rlzoo.training.arithmetic import arithmetic
    from rlzoo.training.memory import GIB, fit

    shape, objective = shape_of(config.model), parse(config.objective)
    found = fit(config, shape, objective, own.gpus, own.memory * GIB)
    print_fit(found, config.model.name, own.gpus)
    print_hours(arithmetic(config, shape, objective), config.train.steps, own.gpus, own.teraflops)
    return int(not found.fits)
