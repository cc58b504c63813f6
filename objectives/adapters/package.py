"""Whether the package that an adapter goes into is the one that it was written for."""

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from objectives.errors import ObjectiveError


@dataclass(frozen=True)
class Package:
    """A package that an adapter goes into, and what the adapter relies on in it."""

    name: str
    tested: tuple[int, int]
    """The version that the tests run with."""
    seams: Mapping[str, tuple[str, ...]]
    """What the adapter calls or replaces there, as `module:name.name`, -> its first parameters."""

    def check(self) -> None:
        """Warns of a newer version; raises ObjectiveError where there is none, for an older one, and for the first seam
        that has changed.
        """
        try:
            installed = version(self.name)
        except PackageNotFoundError:
            raise ObjectiveError(f"{self.name} is not installed: pip install '{self._pin}'") from None
        numbers = tuple(int(part) for part in installed.split(".")[:2])
        if numbers < self.tested:
            raise ObjectiveError(f"{self.name} {installed} is older than this adapter: install {self._pin}")
        if numbers > self.tested:
            tested = ".".join(map(str, self.tested))
            warnings.warn(
                f"{self.name} {installed} is not the version that was tested, {tested}: trying it", stacklevel=4
            )
        for seam, expected in self.seams.items():
            parameters = self._parameters(seam)
            if parameters is None or parameters[: len(expected)] != expected:
                shown = "is not there" if parameters is None else f"takes ({', '.join(parameters)})"
                raise self.changed(f"{seam.split(':')[1]} should take ({', '.join(expected)}) but {shown}")

    def changed(self, what: str) -> ObjectiveError:
        """The error for something that is not as the adapter knows it."""
        return ObjectiveError(
            f"{self.name} {version(self.name)} is not what this adapter knows: {what}; install {self._pin}"
        )

    @property
    def _pin(self) -> str:
        return f"{self.name}=={'.'.join(map(str, self.tested))}.*"

    def _parameters(self, seam: str) -> tuple[str, ...] | None:
        """The parameters of what `module:name.name` says, None where there is no such thing.

        Raises ObjectiveError where the module is there and cannot be imported.
        """
        module, path = seam.split(":")
        try:
            place: Any = import_module(module)
        except ImportError as error:
            if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == self.name:
                return None
            raise ObjectiveError(f"{self.name} cannot be imported as it is installed: {error}") from error
        try:
            for name in path.split("."):
                place = getattr(place, name)
            return tuple(inspect.signature(place).parameters)
        except (AttributeError, TypeError, ValueError):
            return None
