"""The failure modes that methods were invented for, in a line each.

A part names those that it addresses (`Part.failure_modes`); a recipe has those of the parts that are its idea.
"""

from collections.abc import Mapping

FAILURE_MODES: Mapping[str, str] = {
    "zero_loss": "The loss is 0, which is normal with one update a step; nothing learns only if the gradient is 0 too.",
    "dead_groups": "All responses of a group earn the same reward, so that every advantage is 0.",
    "hard_problems": "Right answers are so rare that what they teach drowns in what wrong ones teach.",
    "exploration": "Rare tokens that lead to right answers do not grow: a symmetric clip stops them first.",
    "diversity": "The policy concentrates on few right answers: pass@1 rises and pass@k falls.",
    "entropy_collapse": "Entropy falls towards 0, the responses of a group are all alike, and learning stops.",
    "entropy_explosion": "Entropy rises during training, and responses turn into noise.",
    "length_growth": "Wrong answers grow: each token of a long one costs less in a mean over its own tokens.",
    "truncation": "Responses that are cut off at the limit earn nothing, whatever they would have become.",
    "spurious_tokens": "Improbable tokens that happen to stand in right answers are rewarded with them.",
    "credit": "One reward is spread evenly over all tokens of a response, although few of them decided it.",
    "mixed_difficulty": "Dividing by a group's deviation gives very easy and very hard prompts too much weight.",
    "few_responses": "With few responses per prompt the group's mean is a poor baseline, and the gradient is noise.",
    "stale_rollouts": "The policy has moved since its rollouts were sampled, so that training is off-policy.",
    "many_epochs": "Every further update on the same rollouts moves the policy further from the one that sampled them.",
    "engine_mismatch": "The engine that samples gives tokens other probabilities than the trainer does.",
    "precision": "In bfloat16 log-probs are rounded: ratios of an unmoved policy are not 1, small updates are lost.",
    "mixture_of_experts": "A router that chooses other experts changes single tokens' probabilities by large factors.",
    "noisy_rewards": "Some rewards are wrong: a grader errs, or the policy has found what a reward model likes.",
    "memory": "The model, its optimiser, activations and a reference model do not fit.",
}
"""Tag -> what happens."""
