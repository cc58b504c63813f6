"""TPO: target policy optimisation (Kaddour, arXiv:2604.06159, eq. 1-3 and appendix A).

    L = mean over prompts of  -sum_i q_i log P_i,   P = softmax over the group of sum_t log pi(y_it)
    q_i = P_old,i exp(u_i / eta) / sum,   u_i = (R_i - mean_group) / std_group with ddof 0, 0 where all R are equal

The group's probabilities are fitted to a target that is fixed with the rollouts: a response is pushed by q_i - P_i,
which vanishes once the target is met, so that several passes do no harm (epochs); equal rewards hold it at P_old. P is
settled over whole groups before the update, whatever micro-batches cut; the gradient is exact, and the equation prints
the form that shows it. Of long responses one has nearly all of P, and little is pushed. Weights may not be added.
Open: the denominator of their language models, whose code is not public. Left out: kl(beta=0.001), theirs on GSM8K.
Deviations: their code takes R - mean itself where the deviation is below 1e-6; a prompt with
more responses weighs more, in their code all have the same number.
Sums are over the policy's tokens.
"""

from objectives.parts.population_norm import PopulationNorm
from objectives.parts.seq_sum import SeqSum
from objectives.parts.single_pass import SinglePass
from objectives.parts.target_match import TargetMatch
from objectives.parts.token_ratio import TokenRatio
from objectives.zoo import recipe

recipe(
    "tpo",
    paper="arXiv:2604.06159",
    summary="the group's probabilities fitted to the old ones tilted by the rewards",
    variants={"paper": (PopulationNorm(), TokenRatio(), TargetMatch(), SeqSum(), SinglePass())},
    contribution=("target_match", "seq_sum"),
    essence=("target_match",),
    doc=__doc__,
)
