"""The first hour's page as printed: a model of Qwen3's architecture, DAPO-Math's columns, a reward of a user's own."""

import json
import re
import shlex
from pathlib import Path

import pytest

from rlzoo.commands import main
from tests.conftest import save_tiny_model

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "first_hour.md"


@pytest.mark.slow
@pytest.mark.smoke
def test_six_commands_lead_from_a_clone_to_a_leaderboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    typed = re.findall(r"^    (\S.*)$", text.split("```")[0], re.MULTILINE)
    assert len(typed) == 6
    monkeypatch.chdir(tmp_path)
    save_tiny_model(tmp_path / "my_model", context=256)
    rows = [
        {
            "data_source": "math_dapo",
            "prompt": [{"role": "user", "content": f"{number}+1="}],
            "ability": "MATH",
            "reward_model": {"ground_truth": str(number + 1), "style": "rule-lighteval/MATH_v2"},
            "extra_info": {"index": str(number)},
        }
        for number in range(64)
    ]
    Path("dapo_math.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("mine.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
    Path("my_reward.py").write_text(text.split("```python\n")[1].split("```")[0])
    for line in typed[3:]:
        assert main(shlex.split(line)[1:]) == 0, line
    assert "rlzoo: error" not in capsys.readouterr().err
    assert Path("runs/first/leaderboard.html").is_file()
