"""`rlzoo fit`."""

from argparse import ArgumentParser, Namespace

from objectives import parse
from rlzoo.commands.key_table import declare_words
from rlzoo.config import load_config
from rlzoo.config.words import split_words
from rlzoo.starting import starting

SUMMARY = "predict the memory that an experiment takes of each GPU, and its hours, before anything is loaded"


def declare(parser: ArgumentParser) -> None:
    """Files and keys."""
    declare_words(parser, "fit")


def run(arguments: Namespace) -> int:
    """Prints what each phase takes, and the floor of the hours; 1 if it does not fit."""
    machine, words = split_words("fit", arguments.words)
    config = load_config(words)
    objective = parse(config.objective)

    with starting():
        from rlzoo.experiment.check import check_keys, check_old_logp, check_response_limit, check_shards
        from rlzoo.report.memory import print_fit, print_host, print_hours, print_room
        from rlzoo.rollout.memory import GIB, reference_shape, shape_of, teacher_shape
        from rlzoo.training.fit import arithmetic, fit, host_bytes

    check_keys(config)
    check_response_limit(config)
    check_shards(config.train, machine.gpus)
    check_old_logp(objective, config.rollout)
    shape = shape_of(config.model)
    teacher = teacher_shape(config.model, shape) if "logp_teacher" in objective.needs else None
    others = teacher, reference_shape(config.model) if "logp_ref" in objective.needs else None
    prediction = fit(config, shape, objective, machine.gpus, machine.memory * GIB, *others)
    print_fit(prediction, config.model.name, machine.gpus)
    print_host(host_bytes(config, shape, objective, machine.gpus, *others), machine.gpus)
    print_room(config, shape, prediction, machine.gpus)
    print_hours(arithmetic(config, shape, objective, *others), config.train.steps, machine.gpus, machine.teraflops)
    return int(not prediction.fits)
