"""A setting for tests: one prompt and three responses, so that every group can be written down."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from rlzoo.lab.map.regimes import MapRollouts, Regime, RegimeSetting, make_setting, rollouts_of


def tiny_setting(moved: bool = False, responses: int = 3) -> RegimeSetting:
    """One letter, at most two symbols, one prompt: the end is right, the letter and the end wrong, two letters cut."""
    setting = make_setting(Regime("tiny", "for tests", letters=1, limit=2, responses=responses, moved=moved))
    tables = {name: getattr(setting, name)[:1] for name in ("sampler", "old", "current", "reference", "teacher")}
    return replace(setting, value=torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64), **tables)


def every_group(setting: RegimeSetting) -> Iterator[tuple[Tensor, MapRollouts]]:
    """Each ordered group of responses with its probability."""
    probability = setting.language.log_probs(setting.sampler).exp()[0]
    prompt = torch.zeros(setting.regime.responses, dtype=torch.int64)
    for group in itertools.product(range(len(probability)), repeat=setting.regime.responses):
        response = torch.tensor(group)
        yield probability[response].prod(), rollouts_of(setting, prompt, response, setting.value[0, response])
