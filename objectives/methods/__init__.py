"""The published methods, a chapter for each kind; importing this package registers them all.

Chapters come in an order in which what a method starts from is there before it.
"""
# ruff: noqa: F401, I001

from objectives import parts
from objectives.methods import grpo
from objectives.methods import baselines, clips, groups, trust_regions
from objectives.methods import distillation, entropy, off_policy, regressions, sequences, tokens, turns
