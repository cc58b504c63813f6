"""What `make` says before it makes anything."""

import subprocess
import sys
from pathlib import Path

from tests.processes import ROOT

OLD = """#!/bin/sh
exec {python} -c "import sys; sys.version_info = (3, 10)
$2"
"""


def test_a_python_that_is_too_old_is_one_line_and_leaves_no_environment(tmp_path: Path) -> None:
    interpreter = tmp_path / "old_python"
    interpreter.write_text(OLD.format(python=sys.executable))
    interpreter.chmod(0o755)
    words = ["make", "train", f"PYTHON={interpreter}", f"VENV={tmp_path / 'environment'}"]
    made = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    remedy = "give a newer one, make train PYTHON=python3.11"
    assert made.stderr.splitlines()[0] == f"rlzoo needs Python 3.11 or newer, and {interpreter} is 3.10: {remedy}"
    assert made.returncode == 2 and not (tmp_path / "environment").exists()
