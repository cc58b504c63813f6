"""One file per paper; importing this package registers them all."""

from objectives.methods import grpo  # noqa: F401, I001
from objectives.methods import dapo, entropy20, justrl, advantage_reweighting, lopti, stare, stapo  # noqa: F401
from objectives.methods import dr_grpo, entropy_bonus, sampler_correction  # noqa: F401
