"""Every part is tried on a small batch before anything starts: ours pass, one that fails is named."""

import json
import sys
from pathlib import Path

import pytest

from objectives import parse
from rlzoo.commands import main
from rlzoo.config import RolloutConfig
from rlzoo.experiment.trial import try_objective
from tests.conftest import error_of
from tests.objectives import zoo_names
from tests.processes import launch
from tests.thinned import thinned

HEAD = "from dataclasses import dataclass\nimport torch\nfrom objectives import Advantage, Mask, Weight, register\n\n"
BROKEN = {
    "forgets": (
        "Mask",
        "def keeps(self, batch):\n        return batch.entropy_old > 0.5",
        ["the part forgets fails", "keeps (my_forgets.py, line 10) reads entropy_old, which the part does not declare"],
    ),
    "misshapen": (
        "Mask",
        "def keeps(self, batch):\n        return torch.ones(3, 3, dtype=torch.bool)",
        [
            "the part misshapen fails",
            "keeps (my_misshapen.py, line 10) gives [3, 3] torch.bool where [56, 6] bool is wanted",
        ],
    ),
    "on_the_cpu": (
        "Mask",
        "def keeps(self, batch):\n        return torch.ones(batch.mask.shape).bool()",
        ["keeps (my_on_the_cpu.py, line 10) makes a tensor on the CPU", "device=batch.mask.device"],
    ),
    "mixes": (
        "Weight",
        "def weight(self, batch):\n        return batch.mask * torch.full(batch.mask.shape, 0.5)",
        ["weight (my_mixes.py, line 10) makes a tensor on the CPU"],
    ),
    "divides": (
        "Weight",
        "def weight(self, batch):\n        return batch.mask / 0.0",
        ["the part divides fails", "its loss is not finite"],
    ),
    "raises": (
        "Weight",
        'reads = frozenset({"logp_old"})\n    def weight(self, batch):\n        raise KeyError("tau")',
        ["the part raises fails", "KeyError: 'tau'", "asks for logp_old"],
    ),
    "misplaced": (
        "Weight",
        "def factor(self, batch):\n        return batch.mask",
        ["the part misplaced fails", "its kind is Weight, which writes weight: [N, T]: the factor, or the summand"],
    ),
    "masking": (
        "Advantage",
        "def keeps(self, batch):\n        return batch.mask",
        ["its kind is Advantage, which writes advantage: [N] rewards and [N] groups", "; keeps is what Mask writes"],
    ),
}


@pytest.mark.parametrize("name", thinned([*zoo_names.VARIANTS, *zoo_names.PARTS], fast=0, slow=24))
@pytest.mark.parametrize("group", [2, 8])
def test_all_of_the_zoo_passes(name: str, group: int) -> None:
    objective = parse(name)
    if objective.minimum_group <= group:
        try_objective(objective, RolloutConfig(responses_per_prompt=group, max_response_tokens=24), laws=True)


@pytest.mark.parametrize("name", ["dapo+kl_reward+overlong_filter", "dppo(variant=prime_rl)"])
def test_parts_that_give_a_value_for_each_response_or_select_tokens_are_sound(name: str) -> None:
    config = RolloutConfig(responses_per_prompt=8, max_response_tokens=24)
    try_objective(parse(name), config, laws=True)


def test_a_part_that_trains_one_place_alone_is_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "def keeps(self, batch):\n        return batch.mask & (batch.mask.cumsum(1) == 1)"
    source = f'@register\nclass First(Mask):\n    """The first token alone."""\n\n    name = "first"\n    {body}\n'
    (tmp_path / "my_first.py").write_text(HEAD + source)
    monkeypatch.syspath_prepend(str(tmp_path))
    try_objective(parse("grpo-kl+my_first:first"), RolloutConfig(responses_per_prompt=8, max_response_tokens=24))


@pytest.mark.parametrize("name", BROKEN)
def test_a_part_that_fails_is_named_before_anything_starts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, body, says = BROKEN[name]
    source = f'@register\nclass Broken({kind}):\n    """It fails."""\n\n    name = "{name}"\n    {body}\n'
    (tmp_path / f"my_{name}.py").write_text(HEAD + source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    message = error_of(capsys, "train", f"objective=grpo+my_{name}:{name}+clip_higher")
    for part in says:
        assert part in message
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (
            "Mask",
            "def keeps(self, batch):\n        return batch.mask & False",
            "odd masks every token of a small batch",
        ),
        (
            "Weight",
            "def weight(self, batch):\n        return -1.0 * batch.mask",
            "odd turns the sign of every gradient",
        ),
        ("Weight", "def weight(self, batch):\n        return 0.5 * batch.mask", ""),
    ],
)
def test_a_check_says_what_is_lawful_and_odd_in_lines_of_80_columns(
    kind: str,
    body: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = f'@register\nclass Odd({kind}):\n    """It is odd."""\n\n    name = "odd"\n    {body}\n'
    (tmp_path / f"my_{len(body)}.py").write_text(HEAD + source)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["objectives", "--check", f"grpo+my_{len(body)}:odd"]) == 0
    shown = capsys.readouterr().out
    assert "keeps the laws" in shown and ("but " in shown) == bool(said) and said in shown
    assert max(map(len, shown.splitlines())) <= 80


# ---- faulty parts from outside ---------------------------------------------------------------------------------------

TRIED = """
import json
from objectives import ObjectiveError, Part, parse
from rlzoo.config import RolloutConfig
from rlzoo.errors import UserError
from rlzoo.experiment.trial import try_objective
from tests.experiment import tried_parts

def verdict(name):
    for size in (2, 8):
        try:
            objective = parse(f"{tried_parts.BASES.get(name, 'grpo-kl')}+tests.experiment.tried_parts:{name}")
            if objective.minimum_group <= size:
                try_objective(objective, RolloutConfig(responses_per_prompt=size, max_response_tokens=24))
        except (UserError, ObjectiveError) as error:
            return str(error)
    return ""

kinds = [kind for kind in vars(tried_parts).values() if isinstance(kind, type) and issubclass(kind, Part)]
print(json.dumps({kind.name: verdict(kind.name) for kind in kinds if kind.__module__ == tried_parts.__name__}))
"""


@pytest.mark.slow
def test_a_part_that_breaks_a_law_is_named() -> None:
    verdicts = json.loads(launch([sys.executable, "-c", TRIED]).splitlines()[-1])
    accused = {name for name, text in verdicts.items() if f"the part {name} fails" in text}
    assert verdicts.keys() == accused
    assert "changes with the padding" in verdicts["surprise_share"]
    assert "depends on the batches before" in verdicts["cached_threshold"]
