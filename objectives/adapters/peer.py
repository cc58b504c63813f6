"""Whether the package that an adapter goes into is the one that it was written for."""

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

from objectives.errors import ObjectiveError


@dataclass(frozen=True)
class Peer:
    """A package, the version of it that the tests run with, and what the adapter calls or replaces there: the place,
    as `module:name.name`, -> its first parameters.
    """

    package: str
    tested: tuple[int, int]
    seams: Mapping[str, tuple[str, ...]]

    def check(self) -> None:
        """Warns of a newer version; raises ObjectiveError for an older one and for the first seam that has changed."""
        found = version(self.package)
        numbers = tuple(int(part) for part in found.split(".")[:2])
        if numbers < self.tested:
            raise ObjectiveError(f"{self.package} {found} is older than this adapter: install {self._pin}")
        if numbers > self.tested:
            tested = ".".join(map(str, self.tested))
            warnings.warn(
                f"{self.package} {found} is not the version that was tested, {tested}: trying it", stacklevel=4
            )
        for seam, expected in self.seams.items():
            parameters = self._parameters(seam)
            if parameters is None or parameters[: len(expected)] != expected:
                shown = "is not there" if parameters is None else f"takes ({', '.join(parameters)})"
                raise self.changed(f"{seam.split(':')[1]} should take ({', '.join(expected)}) but {shown}")

    def changed(self, what: str) -> ObjectiveError:
        """The error for something that is not as the adapter knows it."""
        found = version(self.package)
        return ObjectiveError(f"{self.package} {found} is not what this adapter knows: {what}; install {self._pin}")

    @property
    def _pin(self) -> str:
        return f"{self.package}=={'.'.join(map(str, self.tested))}.*"

    def _parameters(self, seam: str) -> tuple[str, ...] | None:
        """The parameters of what `module:name.name` says, None where there is no such thing.

        Raises ObjectiveError where the package itself lacks another one.
        """
        module, path = seam.split(":")
        try:
            found: Any = import_module(module)
            for name in path.split("."):
                found = getattr(found, name)
            return tuple(inspect.signature(found).parameters)
        except ModuleNotFoundError as error:
            lacking = (error.name or self.package).partition(".")[0]
            if lacking != self.package:
                raise ObjectiveError(f"{self.package} needs {lacking}, which is not installed: {error}") from None
            return None
        except (ImportError, AttributeError, TypeError, ValueError):
            return None
