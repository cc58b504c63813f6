"""An expression for every name of the zoo: what has no published value that we know is given one."""

from objectives.zoo import Name

EXAMPLES = {
    "arm": "alpha=0.5",
    "confidence_shift": "alpha=0.5",
    "drift": "beta=0.1",
    "dro": "beta=0.1",
    "minpro": "low=1,high=4",
    "off_policy_mask": "delta=0.1",
    "par": "target_entropy=0.3",
    "positive_reweighting": "target_entropy=0.3",
    "random_tokens": "share=0.4",
    "s_grpo": "share=0.4",
}
"""Recipe or part -> the parameters that it asks for; the numbers are examples, and none is a paper's."""


def with_examples(name: Name, *settings: str) -> str:
    """A recipe or a part as an expression, with its settings and with examples of what it asks for."""
    given = [*settings, *([EXAMPLES[name.name]] if name.asked else [])]
    return f"{name.name}({','.join(given)})" if given else name.name
