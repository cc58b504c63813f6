"""One file per part, per pair that differs in a word, or for what a pair shares; importing this registers them all."""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
