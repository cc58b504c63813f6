"""What stays small enough to be read at one sitting."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = {"objectives/methods/": 80, "": 400}
"""Lines of a file at most, by the folder it lies in; the first that fits counts."""


@pytest.mark.parametrize("folder", LONGEST)
def test_no_file_is_too_long_for_its_place(folder: str) -> None:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [name for name in listed.stdout.split() if name.startswith(folder)]
    lengths = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in files}
    assert lengths
    assert not {name: length for name, length in lengths.items() if length > LONGEST[folder]}
