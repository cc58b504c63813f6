"""The embedded model learns to add inside verl, as it does in our own loop."""

import re
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, launch


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_sixty_steps_of_stapo_inside_verl_raise_held_out_accuracy_by_fifteen_points(tmp_path: Path) -> None:
    printed = launch([sys.executable, ROOT / "examples" / "verl_sums.py", "steps=60", f"output={tmp_path}"])
    before, after = map(float, re.findall(r" - val-core/sums/acc/mean@8:(?:np\.float64\()?(\d\.\d+)", printed))
    print(f"held-out avg@8: {before:.1%} before, {after:.1%} after")
    assert after - before >= 0.15
