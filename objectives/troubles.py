"""The troubles that methods were invented for, in the words of those who have them.

A part names those that it addresses (`Part.troubles`); a recipe has those of the parts that are its idea.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Trouble:
    """One of them."""

    tag: str
    diagnosis: str
    """What is going on, in one or two sentences."""
    words: tuple[str, ...]
    """What users say of it."""


TROUBLES: Mapping[str, Trouble] = {
    trouble.tag: trouble
    for trouble in (
        Trouble(
            "zero_loss",
            "A loss of 0 is normal: with one update per step every ratio is 1 and the advantages of a group add up to "
            "0, but their gradient does not. Only if the gradient's norm is 0 as well does nothing learn, because "
            "every group is all right or all wrong.",
            ("the loss is 0", "loss is always zero", "loss starts at 0", "loss does not go down", "loss stays 0.0"),
        ),
        Trouble(
            "dead_groups",
            "Where all responses of a group earn the same reward, every advantage is 0 and the group teaches nothing.",
            (
                "all groups are wrong",
                "every response of a group has the same reward",
                "reward std is 0",
                "zero advantage",
                "groups without signal",
                "gradient norm is 0",
                "all responses are correct",
            ),
        ),
        Trouble(
            "hard_problems",
            "Right answers are so rare that few groups have one, and what they teach drowns in what wrong ones teach.",
            (
                "problems are too hard",
                "hardly any right answer",
                "reward stays near 0",
                "sparse reward",
                "the model never solves hard prompts",
                "accuracy does not improve on hard problems",
            ),
        ),
        Trouble(
            "exploration",
            "Rare tokens that lead to right answers do not grow: a symmetric clip stops them first, because their "
            "probability moves by the largest factor.",
            (
                "no exploration",
                "rare right answers do not grow",
                "the policy never tries anything new",
                "clip stops rare tokens",
                "clip higher",
                "does not explore",
            ),
        ),
        Trouble(
            "diversity",
            "The policy puts its probability on few right answers: pass@1 rises, pass@k and the number of different "
            "answers fall.",
            (
                "pass@k falls",
                "pass@k gets worse while pass@1 improves",
                "all answers are the same",
                "mode collapse",
                "loss of diversity",
                "identical responses",
            ),
        ),
        Trouble(
            "entropy_collapse",
            "The policy becomes sure too early: entropy falls towards 0, all responses of a group are alike, and "
            "learning stops.",
            (
                "entropy collapses",
                "entropy collapse",
                "entropy drops to zero",
                "entropy falls too fast",
                "entropy decreases",
                "model repeats itself",
                "premature convergence",
            ),
        ),
        Trouble(
            "entropy_explosion",
            "The policy becomes less sure instead of surer: entropy rises, and responses turn into noise.",
            (
                "entropy explodes",
                "entropy keeps increasing",
                "entropy goes up during training",
                "garbled responses",
                "outputs turn into gibberish",
                "model generates nonsense late in training",
            ),
        ),
        Trouble(
            "length_growth",
            "A mean over each response's own tokens makes a token of a long wrong answer cost less than one of a short "
            "wrong answer, so that wrong answers grow.",
            (
                "answers get longer and longer",
                "response length keeps growing",
                "length bias",
                "wrong answers grow",
                "responses become too long",
                "completion length increases",
            ),
        ),
        Trouble(
            "truncation",
            "Responses that are cut off at the limit earn nothing, whatever they would have become; their reward says "
            "where the limit is rather than what is wrong.",
            (
                "responses are truncated",
                "overlong responses",
                "completions hit the length limit",
                "clipped ratio of completions is 1",
                "max completion length reached",
                "cut off before the answer",
            ),
        ),
        Trouble(
            "spurious_tokens",
            "Improbable tokens that happen to stand in right answers are rewarded with them, and their gradient is "
            "larger than that of all the others.",
            (
                "spurious tokens",
                "strange tokens appear in the output",
                "rare tokens dominate the gradient",
                "weird characters in responses",
                "language mixing",
                "gradient spikes from improbable tokens",
            ),
        ),
        Trouble(
            "credit",
            "One reward is spread evenly over all tokens of a response, although few of them decided it.",
            (
                "credit assignment",
                "which token was decisive",
                "forking tokens",
                "every token gets the same advantage",
                "sparse credit over long responses",
                "token level credit",
            ),
        ),
        Trouble(
            "mixed_difficulty",
            "Dividing by the deviation of a group's rewards gives prompts that are nearly always right or nearly "
            "always wrong more weight than the expected reward does.",
            (
                "difficulty bias",
                "easy and hard prompts mixed",
                "standard deviation in the denominator",
                "scale rewards",
                "easy prompts dominate",
                "std normalization biases the advantage",
            ),
        ),
        Trouble(
            "few_responses",
            "With few responses per prompt the mean of the group is a poor baseline, and the gradient is mostly noise.",
            (
                "small groups",
                "only two responses per prompt",
                "num_generations is small",
                "gradient is noisy",
                "high variance of the gradient",
                "reward curve oscillates",
            ),
        ),
        Trouble(
            "stale_rollouts",
            "The policy has moved since its rollouts were sampled, so that they are another policy's; what the "
            "importance ratio does then decides the direction of the update.",
            (
                "stale rollouts",
                "asynchronous training is off-policy",
                "old samples from a replay buffer",
                "off-policy data",
                "staleness",
                "importance ratio explodes",
                "several mini-batches per step",
            ),
        ),
        Trouble(
            "many_epochs",
            "Every further update on the same rollouts moves the policy further from the one that sampled them; what "
            "does not bound the ratio runs away.",
            (
                "same data for several epochs",
                "reuse the same rollouts",
                "num_iterations greater than 1",
                "multiple updates per batch",
                "ppo epochs",
                "clip ratio is always zero",
            ),
        ),
        Trouble(
            "engine_mismatch",
            "The engine that samples gives its tokens other probabilities than the trainer does, so that training is "
            "off-policy even with one update per step.",
            (
                "ratio explodes with vLLM",
                "vllm and trainer log-probs differ",
                "training inference mismatch",
                "sglang logprobs do not match",
                "sampler and trainer disagree",
                "truncated importance sampling",
                "rollout engine mismatch",
            ),
        ),
        Trouble(
            "precision",
            "In bfloat16 log-probs are rounded to a few digits, so that ratios of a policy that has not moved are not "
            "1, and small updates are lost.",
            (
                "bfloat16 log-probs",
                "bf16 precision",
                "fp16 or bf16",
                "numerical precision",
                "loss is nan",
                "half precision training diverges",
            ),
        ),
        Trouble(
            "mixture_of_experts",
            "A router that chooses other experts after an update, or in another engine, changes the probability of "
            "single tokens by large factors.",
            (
                "MoE training is unstable",
                "mixture of experts",
                "experts change between rollout and training",
                "router replay",
                "Qwen3-30B-A3B diverges",
                "sparse model collapses",
            ),
        ),
        Trouble(
            "noisy_rewards",
            "Some rewards are wrong: a grader errs, or the policy has found what a reward model likes.",
            (
                "rewards are noisy",
                "reward hacking",
                "wrong rewards",
                "reward model is unreliable",
                "grader makes mistakes",
                "false positives of the verifier",
            ),
        ),
        Trouble(
            "memory",
            "The model, its optimiser and what an update keeps do not fit; an objective with a divergence from a "
            "reference keeps a second, frozen model as well, and one without does not.",
            (
                "out of memory",
                "CUDA OOM",
                "GPU memory is not enough",
                "how much memory does it need",
                "reference model does not fit",
            ),
        ),
    )
}
"""By tag."""
