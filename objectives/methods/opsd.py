"""OPSD: on-policy self-distillation (Zhao et al., Self-Distilled Reasoner, arXiv:2601.18734), for sampled tokens.

    J = (1/N) sum_i 1/|y_i| sum_t sg[ log pi_teacher(y_it) - log pi(y_it) ] log pi(y_it)

The teacher is the starting model with a reference solution in its prompt: model.teacher=initial and
task.teacher_prompt. This is their sampled-token objective (section 4.3.5, the code's use_thinking_machines_loss). Left
out: their main one, a clipped divergence over the whole vocabulary, which sampled tokens' log-probs do not give.
Open: the temperature, 1.1 in their scripts; that of the rollouts scores the teacher, too.
Variant authors: the mean over the tokens of each micro-batch.
"""

from objectives.parts.no_reward import NoReward
from objectives.parts.reinforce import Reinforce
from objectives.parts.seq_mean import SeqMean
from objectives.parts.single_pass import SinglePass
from objectives.parts.teacher_advantage import TeacherAdvantage
from objectives.parts.token_mean import TokenMean
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

_SHARED = (NoReward(), TeacherAdvantage(source="current"), TokenRatio(), Reinforce(), SinglePass())

recipe(
    "opsd",
    paper="arXiv:2601.18734",
    summary="the model with a solution in its prompt teaches the model without",
    variants={"paper": (*_SHARED, SeqMean()), "authors": (*_SHARED, TokenMean(scope="microbatch"))},
    contribution=("teacher_advantage",),
    doc=__doc__,
)
