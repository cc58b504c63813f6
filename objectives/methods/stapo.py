"""STAPO (arXiv:2602.15620, v4, eq. of section 4): JustRL without the gradient of spurious tokens.

    J = E [ 1 / sum I_it  sum_i sum_t I_it min( r A, clip(r, 0.8, 1.28) A ) ]
    I_it = 0  iff  A_i > 0  and  pi(y_it) < tau_p  and  H_it < tau_h,
    tau_h = the q-quantile of H over the tokens with the first two

Probability and entropy are the current policy's (Algorithm 1), the quantile is taken over the mini-batch, interpolated
linearly, and the comparison is strict: an empty pool, or a pool of one, silences nothing.
Deviations: the sign is that of the weighted advantage; a token whose weight is zero has none and is in no pool.
Open: the printed mask writes pi without saying whose; source=old takes the rollouts' statistics and saves a forward.
Variant v1 (February 2026): q = 0.8; what its quantile runs over was not spelled out and is read as in v4.
Variant justrl: the mask on the code of JustRL, of which the paper has all other settings (dual_clip(cap=10), token mean
per micro-batch). STAPO's own code is not public: this is held against JustRL's function, the mask being ours.
"""

from objectives.methods.justrl import JUSTRL, JUSTRL_AUTHORS
from objectives.parts.s2t import S2T
from objectives.zoo import recipe

recipe(
    "stapo",
    paper="arXiv:2602.15620",
    summary="JustRL with spurious tokens silenced: rare, low-entropy, rewarded",
    variants={
        "paper": (*JUSTRL, S2T()),
        "v1": (*JUSTRL, S2T(q=0.8)),
        "justrl": (*JUSTRL_AUTHORS, S2T()),
    },
    contribution=("s2t",),
    doc=__doc__,
)
