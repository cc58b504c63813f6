"""What each variant of each recipe was held against: whose function or equation, at which commit, how far off.

A run compares the push on every token of 40 random float64 batches, relative to the largest of its batch. Runs marked
`vectors` are made again by `tests/objectives/sources/make.py`; the others are checks of 22 and 23 November 2026.
"""

from dataclasses import dataclass

KINDS = ("code, run", "code, read", "paper's equation", "notes on the paper")

_LINES = """
advantage_reweighting | paper | paper's equation | arXiv:2505.12929 eq. 6 | 0 |
advantage_reweighting | authors | code, run | zhyang2226/AR-Lopti@cbeb333 core_algos.py:259 | 5e-9, vectors |
agpo | paper | notes on the paper | arXiv:2503.15952 | 3e-16 | nobody's code could be had
arm | paper | notes on the paper | arXiv:2602.05281 | agrees with three public notes | alpha; nobody's code could be had
aspo | paper | code, run | wizard-III/Archer2.0@b08d963, low-entropy branch | 1e-9 | their wider clip of unsure tokens
bapo | paper | paper's equation | arXiv:2510.18927 eq. 8, Algorithm 1 | 0 | P - N is printed below the line
bapo | authors | code, run | WooooDyy/BAPO@7287044 recipe/bapo/policy_loss.py:76-185 | 9e-9, vectors |
ce_gppo | paper | code, run | Kwai-Klear/CE-GPPO@10558fe | 1e-9 |
cispo | paper | code, run | verl-project/verl@1dda039, huggingface/trl@f2cd577 | 0 | the paper's own code is not public
clip_cov | paper | paper's equation | arXiv:2505.22617 eq. 12-13 | 1e-9 on the whole band | PPO's clip beside it
clip_cov | authors | code, run | PRIME-RL/Entropy-Mechanism-of-RL@8850579 core_algos.py:469 | 9e-9, vectors | the draw
dapo | paper | paper's equation | arXiv:2503.14476 eq. 8-13 | 0 | what the token mean runs over
dapo | authors | code, run | volcengine/verl@b178a3c core_algos.py:1160, reward_manager/dapo.py:53 | 2e-15, vectors |
dcpo | paper | paper's equation | arXiv:2509.02333 | 1e-8 | a factor of G in its mean; SAS is left out
dcpo | authors | code, run | lime-RL/DCPO@01787b0 core_algos.py:990-1095 | 9e-9, vectors | SAS is left out
dg | paper | code, read | JeanKaddour/tpo@73473b9 src/tpo/algorithms.py:219-234, core.py:9-25 | not run | the baseline
dppo | paper | code, run | sail-sg/Stable-RL@c6af1d1, binary tv and kl | 0 | what the sum is averaged over
dppo | authors | code, run | sail-sg/Stable-RL@c6af1d1 core_algos.py:1160-1300, dp_actor.py:653 | 9e-16, vectors |
dppo | trl | code, read | huggingface/trl@06d22b6 trl/experimental/dppo | not run | the trainer was deleted in July 2026
dppo | prime_rl | code, run | PrimeIntellect-ai/prime-rl@559b447 | 0 |
dr_grpo | paper | code, run | sail-sg/understand-r1-zero@dfca49d (oat's lines), huggingface/trl@f2cd577 | 2e-16 |
dro | verl | code, run | verl-project/verl@1dda039 core_algos.py:2014 | 0 |
echo | paper | notes on the paper | arXiv:2605.24517, public notes | 0 | GRPO's settings; the denominator
echo | prime_rl | code, run | PrimeIntellect-ai/prime-rl@559b447 loss.py:109-259, 394 | 2e-15, vectors | the template
entropy20 | paper | paper's equation | arXiv:2506.01939 | 0 |
entropy20 | authors | code, run | Shenzhi-Wang/Beyond-the-80-20-Rule-RLVR@6f5dda6 core_algos.py | 4e-8, vectors | ties
entropy20 | v1 | notes on the paper | arXiv:2506.01939v1 | 0 |
entropy_advantage | paper | notes on the paper | arXiv:2506.14758 | 0 | nobody's code could be had
fipo | paper | code, run | modelscope/ms-swift@3602360 grpo_trainer.py:899-945, 1062-1074 | 1e-15, vectors | its base
gdpo | paper | code, run | NVlabs/GDPO@b080e63 grpo_trainer.py:1222-1248 | 4e-16 | the paper was not read
gdpo | verl | code, run | verl-project/verl@1dda039 core_algos.py:362-466, 1286-1361 | 2e-9, vectors |
gigpo | paper | paper's equation | arXiv:2505.10978 eq. 3-9 | 0 | over what a turn's tokens are averaged
gigpo | unscaled | paper's equation | arXiv:2505.10978 eq. 3-9, F_norm = 1 | 0 | likewise
gigpo | authors | code, run | langfengQ/DrMAS@19c632b core_algos.py:128-447, 826-887 | 2e-7, vectors | similar states
gmpo | paper | code, run | callsys/GMPO@205b2bf, verl-project/verl@1dda039 | 2e-16 |
gpg | paper | paper's equation | arXiv:2504.02546 eq. 5 | 0 | resampling to a share of valid groups
gpg | authors | code, run | AMAP-ML/GPG@e096da8 open_r1/gpg_trainer.py:269-318 | 4e-15, vectors | likewise
gpg | verl | code, run | verl-project/verl@1dda039 core_algos.py:1707 | 0 |
grpo | paper | paper's equation | arXiv:2402.03300 eq. 3-4 | 0 | clip width, deviation's ddof
gspo | paper | code, run | verl-project/verl@1dda039, huggingface/trl@f2cd577, OpenRLHF/OpenRLHF@3c3be62 | 1e-8 |
gvpo | paper | code, run | verl-project/verl-recipe@48ea0a7 gvpo/gvpo_core_algos.py:39-57 | 4e-15, vectors | a factor
hapo | paper | paper's equation | arXiv:2509.16591, sign by the text | 0 | temperature per token; dynamic sampling
hapo | authors | code, run | starriver030515/HAPO@7671dde core_algos.py:82-157, 295-370, 714-830 | 9e-9, vectors |
icepop | paper | code, run | OpenRLHF/OpenRLHF@3c3be62 loss.py:198-204 | 1e-8 | the weight of the paper's KL
justrl | paper | code, read | thunlp/JustRL@cf444e9, its run script | 0 | the paper prints no formula
justrl | authors | code, run | thunlp/JustRL@cf444e9 core_algos.py:455 | 1e-8, vectors |
kimi | paper | notes on the paper | arXiv:2501.12599 eq. 3, as ROLL quotes it | 0 | tau; the length reward
kimi | roll | code, read | alibaba/ROLL@8eb27cc roll/pipeline/rlvr/actor_pg_worker.py:408-436 | not run | its mean
kl_cov | paper | paper's equation | arXiv:2505.22617 eq. 14 | 0 |
kl_cov | authors | code, run | PRIME-RL/Entropy-Mechanism-of-RL@8850579 core_algos.py:426-467 | 7e-9, vectors | Cov <= 0
kpo | paper | code, run | shuohe1995/verl-kpo@c313594 | 1e-8 |
lite_ppo | paper | code, run | huggingface/trl@f2cd577, scale_rewards=batch | 5e-16 |
lopti | paper | paper's equation | arXiv:2505.12929 | 0 |
lopti | authors | code, run | zhyang2226/AR-Lopti@cbeb333 core_algos.py:259 | 4e-9, vectors |
luspo | paper | code, run | huggingface/trl@f2cd577 | 2e-16 | nobody's other code could be had
m2po | paper | paper's equation | arXiv:2510.01161 Algorithm 1, its page for 0.04 | 0 | tokens of equal ratio
m2po | authors | code, run | Infini-AI-Lab/M2PO@af54a3e core_algos.py:683-867 | 9e-9, vectors |
magic | paper | notes on the paper | arXiv:2505.22312, huggingface/trl@f2cd577 | 0 | the paper was not read
magic | authors | code, run | SkyworkAI/Skywork-OR1@64e96af core_algos.py:56-74, 248; dp_actor.py:269 | 9e-9, vectors |
maxrl | paper | code, run | tajwarfahim/maxrl@c0698eb, the advantage | 0 |
minpro | paper | paper's equation | arXiv:2601.22718, three prefixes | 0 | widths; nobody's code could be had
nft | paper | code, run | NVlabs/NFT@b358fae dp_actor.py:324-366 | 9e-16 up to a factor | its denominator; bounds of p
opd | paper | code, read | thinking-machines-lab/tinker-cookbook@9dfcc3a train_on_policy.py:50-105 | not run | a factor
opd | verl | code, run | verl-project/verl@1dda039 trainer/distillation/losses.py:250-300, 395-430 | 0, vectors |
opo | paper | paper's equation | arXiv:2505.23585 | 3e-16 | nobody's own code could be had
opo | verl | code, run | verl-project/verl@1dda039 | 0 |
opsd | paper | notes on the paper | arXiv:2601.18734 section 4.3.5 | 0 | its main loss needs the whole vocabulary
opsd | authors | code, run | siyan-zhao/OPSD@590ec26 opsd_trainer.py:686-711 | 8e-16, vectors | likewise
otb | paper | notes on the paper | arXiv:2602.07078, verl@1dda039 docs/algo/otb.md | 0 | the paper was not read
otb | verl | code, run | verl-project/verl@1dda039 core_algos.py:872-987, 1286-1361 | 3e-7, vectors | 1e-8 in a sum
par | paper | notes on the paper | arXiv:2511.05993, two notes | 0 | delta; where lambda starts; no code could be had
passk | paper | code, run | RUCAIBox/Passk_Training@c3ba575, k = 1, 2, 4, 6 | 5e-15 |
positive_nll | paper | code, read | NVIDIA-NeMo/RL@7ea279a | 0 |
qae | paper | notes on the paper | arXiv:2509.22611, its README | 0 | nobody's code could be had
qae | authors | code, read | its README's np.quantile | 0 | nobody's code could be had
real | paper | code, run | modelscope/ms-swift@3602360 | 1e-15 |
rec | paper | code, read | agentscope-ai/Trinity-RFT@1d7fae4 rec_policy_loss.py:66-116 | not run | widths; the baseline
rec | two_side | code, read | agentscope-ai/Trinity-RFT@1d7fae4 rec_policy_loss.py:66-116 | not run | likewise
rec | ring | code, read | agentscope-ai/Trinity-RFT@1d7fae4 rec_policy_loss.py:66-116 | not run | likewise
rec | is | code, read | agentscope-ai/Trinity-RFT@1d7fae4 rec_policy_loss.py:66-116 | not run | likewise
reinforce | paper | paper's equation | doi:10.1007/BF00992696 | 0 |
reinforce_pp | paper | code, run | OpenRLHF/OpenRLHF@3c3be62, its mean per sample | 1e-8 |
reinforce_pp | authors | code, run | OpenRLHF/OpenRLHF@3c3be62 loss.py:116-234 | 3e-9, vectors |
reinforce_pp_baseline | paper | paper's equation | arXiv:2501.03262 eq. 8 | 0 | weight of k2; deviation over what
reinforce_pp_baseline | authors | code, run | OpenRLHF/OpenRLHF@3c3be62 loss.py:116-234 | 2e-9, vectors | bound of k2
rloo | paper | paper's equation | arXiv:2402.14740 | 2e-15 |
rloo | trl | code, run | huggingface/trl@f2cd577 RLOOTrainer | 6e-15 |
rlsd | paper | notes on the paper | arXiv:2604.03128 Algorithm 1 | 0 | eq. 16 has no ratio; the teacher's renewal
rlsd | authors | code, run | iie-ycx/RLSD@93e46f7 dp_opsd_actor.py:210-250, core_algos.py:408 | 4e-9, vectors | likewise
sapo | paper | code, run | verl-project/verl@1dda039, huggingface/trl@f2cd577 | 0 | the paper's own code is not public
sdar | paper | notes on the paper | arXiv:2605.15155 section 2, gap gate | 0 | lambda
sdar | authors | code, run | ZJU-REAL/SDAR@8b85c23 sdar_utils.py:14-52, dp_actor.py:372-457 | 9e-9, vectors | actions
stapo | paper | paper's equation | arXiv:2602.15620v4 section 4 | 0 | whose probability the mask reads
stapo | v1 | notes on the paper | arXiv:2602.15620v1 | 0 | what its quantile runs over
stapo | authors | code, run | thunlp/JustRL@cf444e9 core_algos.py:455, masked | 1e-8, vectors | its code is not public
stare | paper | paper's equation | arXiv:2606.19236 | 0 |
stare | c2 | paper's equation | arXiv:2606.19236 | 0 |
stare | authors | code, run | hp-luo/STARE@bffb9e7 core_algos.py:190-240, 1070-1290 | 9e-16, vectors | ties
topr | paper | paper's equation | arXiv:2503.14286 eq. 8; with token_ratio alibaba/ROLL@8eb27cc | 0 |
tpo | paper | paper's equation | arXiv:2604.06159 eq. 1-3; JeanKaddour/tpo@73473b9 algorithms.py:287 | 0 | denominator
up | paper | notes on the paper | arXiv:2607.06987 eq. 14-15, as two pull requests have them | 0 | its base
up | verl | code, read | verl-project/verl pull request 7022, compute_policy_loss_up, as quoted | not run | not merged
vespo | paper | code, run | FloyedShen/VESPO, huggingface/trl@f2cd577 | 1e-15 |
w_reinforce | paper | paper's equation | arXiv:2506.01347; TianHongZXY/RLVR-Decomposed@a5d4e7c | 1e-8 |
w_reinforce | psr | paper's equation | arXiv:2506.01347; TianHongZXY/RLVR-Decomposed@a5d4e7c | 1e-8 |
w_reinforce | nsr | paper's equation | arXiv:2506.01347; TianHongZXY/RLVR-Decomposed@a5d4e7c | 1e-8 |
w_reinforce | authors | code, run | TianHongZXY/RLVR-Decomposed@a5d4e7c core_algos.py:111, 319 | 9e-9, vectors |
w_reinforce | psr_authors | code, run | TianHongZXY/RLVR-Decomposed@a5d4e7c core_algos.py:111, 319 | 1e-8, vectors |
w_reinforce | nsr_authors | code, run | TianHongZXY/RLVR-Decomposed@a5d4e7c core_algos.py:111, 319 | 9e-9, vectors |
"""

MISSING = {
    "s_grpo": "arXiv:2504.20834: a random share of the tokens; its equation and share could not be read, nor code had",
    "t_spmo": "arXiv:2504.20834: prefix matching needs token ids, which batches do not have; its equation was not read",
    "symmetric_loss": "arXiv:2405.17618: only its abstract and its scripts (alpha 0.5, beta 0.2 or 0.4) could be read",
    "shuffle_r1": "arXiv:2508.05612 samples and reshuffles pairs of rollouts, the sampler's work; no code to read",
    "gkd": "arXiv:2306.13649: divergences of whole distributions, and batches hold the sampled tokens' log-probs alone",
    "minillm": "arXiv:2306.08543: its single-step term is a sum over the vocabulary; TRL's trainer needs all logits",
    "sdpo": "arXiv:2601.20802: a divergence over the likeliest tokens of the teacher, whose logits batches do not have",
    "gtpo_shaping": "arXiv:2508.02260: perplexity and position shaping; neither its equation nor its code could be had",
}
"""Methods that were asked for and are not here, and why."""


@dataclass(frozen=True)
class Provenance:
    """What one variant of a recipe was held against."""

    recipe: str
    variant: str
    against: str
    """`code, run`, `code, read`, `paper's equation` or `notes on the paper`."""
    source: str
    difference: str
    """The largest one, or that it was not run; 0 is no more than rounding."""
    open: str = ""
    """What it leaves open."""


PROVENANCE = tuple(Provenance(*map(str.strip, line.split("|"))) for line in _LINES.strip().splitlines())
