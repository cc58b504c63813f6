"""RLSD: self-distillation weighs what the verifier says (Yang et al., Self-Distilled RLVR, arXiv:2604.03128, Alg. 1).

    A'_it = A_i ( 1 - m + m clip( (pi_teacher(y_it) / pi_old(y_it))^sign(A_i), 1 - eps, 1 + eps ) )
    m = 0.5 in the first step, falling linearly to 0 over 50 steps;   eps = 0.2

On GRPO without KL. The teacher is the model with the answer in its prompt, task.teacher_prompt: rewards say in which
direction a token is pushed, the teacher how far.
Open: eq. 16 has no ratio to the old policy; here GRPO's, as in the code.
Left out, of the loop: their teacher is renewed every 20 steps; here it is the policy itself, or the starting model with
model.teacher=initial.
Variant authors (iie-ycx/RLSD): over 60 steps, the current policy's log-prob in the weight, clip_higher(high=0.28),
dual_clip(cap=3) and the mean over all tokens, as their script has it.
"""

from objectives.parts.clip import Clip
from objectives.parts.clip_higher import ClipHigher
from objectives.parts.dual_clip import DualClip
from objectives.parts.evidence_reweighting import EvidenceReweighting
from objectives.parts.group_norm import GroupNorm
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

_SHARED = (GroupNorm(), TokenRatio(), Clip(), SinglePass())
_AUTHORS = EvidenceReweighting(steps=60, source="current")

recipe(
    "rlsd",
    paper="arXiv:2604.03128",
    summary="rewards say in which direction a token is pushed, a teacher that knows the answer how far",
    variants={
        "paper": (*_SHARED, SeqMean(), EvidenceReweighting()),
        "authors": (*_SHARED, ClipHigher(), DualClip(), TokenMean(), _AUTHORS),
    },
    contribution=("evidence_reweighting",),
    doc=__doc__,
)
