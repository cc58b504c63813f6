"""In an environment of the oldest versions that the requirements allow: what is there is what they say, and imports."""

import importlib
import pkgutil
import re
import runpy
from importlib.metadata import version

import pytest
from packaging.version import Version

import objectives
import rlzoo
from tests.processes import ROOT

(EXTRAS,) = re.findall(r"^OLDEST_EXTRAS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
DECLARED = runpy.run_path(str(ROOT / "locks" / "oldest.py"))["declared"](EXTRAS.split(","))
ELSEWHERE = ("objectives.adapters.trl", "objectives.adapters.verl")
"""What imports a trainer or an environment, whose own tests install its oldest release."""
MODULES = [
    module.name
    for package in (objectives, rlzoo)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda name: None)
    if not module.name.startswith(ELSEWHERE)
]


@pytest.mark.parametrize("name", DECLARED)
def test_what_is_installed_is_the_lower_bound_that_is_declared(name: str) -> None:
    installed = Version(version(name))
    assert Version(installed.public) == Version(DECLARED[name])


@pytest.mark.parametrize("name", MODULES)
def test_every_module_is_imported(name: str) -> None:
    importlib.import_module(name)
