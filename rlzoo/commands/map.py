"""`rlzoo map`."""

from argparse import ArgumentParser, Namespace

from rlzoo.commands.key_table import declare_words

SUMMARY = "show what one update of each objective does, exactly, in a language of a few thousand responses"


def declare(parser: ArgumentParser) -> None:
    """Objectives, every recipe if there is none, and keys."""
    declare_words(parser, "map", "EXPRESSION | key=value", "objectives, every recipe if there is none", objectives=True)


def run(arguments: Namespace) -> None:
    """Makes the map, writes it and says where it is."""
    from rlzoo.api import map_words

    map_words(arguments.words)
