"""The parts that several methods use, by stage; importing this package registers them all."""

from objectives.parts import advantages, losses  # noqa: F401
