"""DAPO (arXiv:2503.14476, eq. 8-13): clip 0.8 to 1.28, mean over all tokens, mixed groups only, length punished.

The authors' code: dual clip at 10, the mean within each micro-batch, weighted by its responses.
"""

from tests.objectives.parts_reference import (
    clip,
    clipped,
    dynamic_sampling,
    micro_batch_mean,
    prompt_mean,
    soft_overlong,
)

IDEAS = {"rewards": [soft_overlong()], "selects": [dynamic_sampling]}
CODE = {"surrogate": clip(high=0.28, cap=10.0), "share": micro_batch_mean}

RECIPES = {"dapo": clipped(**IDEAS), "dapo(variant=authors)": clipped(**IDEAS, **CODE)}

COMPOSITIONS = {"dapo(scope=prompt)": clipped(**IDEAS, share=prompt_mean)}
