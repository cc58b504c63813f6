"""The names of the zoo as expressions."""

from collections.abc import Iterable

from objectives import OF_TURNS, names, parse, with_examples

RECIPES = [with_examples(name) for name in names() if name.kind == "recipe"]
VARIANTS = [with_examples(name, f"variant={variant}") for name in names() for variant in name.variants]
PARTS = [with_examples(name) for name in names() if name.kind == "part"]

TELLING = {
    "bapo(variant=paper)": "bapo(target=0.9,lower=0.98,lower_most=0.99,upper=1.02)",  # its bounds move, and matter
    "passk(variant=paper)": "passk(k=2)",  # of four responses, two of them right, any four have the same reward
    "magic(variant=paper)": "magic(start=0.01,target_entropy=5)",  # its bonus is 0 in the first step
    "clip_cov(variant=paper)": "clip_cov(fraction=1,low=0.1)",  # a random key is decided by the last bit of a log-prob
    "clip_cov(variant=authors)": "clip_cov(variant=authors,fraction=1,low=0.1)",
}
"""A variant -> with parameters at which the two updates on 24 rollouts that adapters are tested with say something."""


def taught(expression: str) -> list[str]:
    """The keys that give an objective a teacher where it reads one: the policy with the answer in its prompt."""
    return ["task.teacher_prompt={answer}={prompt}"] if "logp_teacher" in parse(expression).needs else []


def of_one_turn(expressions: Iterable[str]) -> list[str]:
    """Those that a task whose responses are one turn can serve."""
    return [expression for expression in expressions if not parse(expression).needs & (OF_TURNS | {"writer"})]
