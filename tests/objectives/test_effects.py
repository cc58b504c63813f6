"""What is typed has an effect: of each name of a pair, or an error or a line says that it has none."""

import re

import pytest

from objectives import Objective, ObjectiveError, names, parse, read_terms
from tests.objectives.contributions import CONTRIBUTIONS, ESSENCES
from tests.objectives.test_algebra import refuses
from tests.objectives.zoo_sample import PARTS, RECIPES
from tests.thinned import thinned


@pytest.mark.parametrize(
    ("base", "addition", "remedy"),
    [
        ("bapo", "clip_higher", "write justrl"),
        ("m2po(variant=authors)", "clip_higher", "write justrl"),
        ("lopti", "single_pass", "write"),
        ("nft", "clip", "write dr_grpo+token_mean"),
        ("gvpo", "clip", "write dr_grpo+seq_sum"),
        ("qae", "group_norm", "write dapo-soft_overlong"),
        ("par(target_entropy=0.5)", "group_contrast", "write"),
        ("kpo", "token_ratio", "write"),
        ("minpro(low=0.5,high=0.5)", "token_ratio", "write cispo(low=0.5,high=0.5)"),
        ("justrl", "gspo", "begin with gspo"),
        ("cispo", "gspo", "begin with gspo"),
        ("rloo", "topr", "begin with topr"),
        ("nft", "rec", "write rec"),
        ("bapo", "clip_higher-token_mean", "write grpo+clip_higher-kl"),
    ],
)
def test_a_base_of_which_nothing_is_left_is_refused(base: str, addition: str, remedy: str) -> None:
    refuses(f"{base}+{addition}", f"nothing of {base.split('(')[0]} (", "leave one of them out", f"or {remedy}")
    if lookup_kind(addition) == "part":
        refuses(f"{addition}+{base}", "leave")


def test_an_error_names_the_order_that_has_a_meaning() -> None:
    refuses(
        "clip+kl_cov",
        "clip and unclipped (of kl_cov) exclude each other",
        "leave one of them out, or begin with kl_cov",
    )
    assert "clip" in {part.name for part in parse("kl_cov+clip").parts}


def lookup_kind(name: str) -> str:
    return next((entry.kind for entry in names() if entry.name == name), "")


@pytest.mark.parametrize("base", thinned(RECIPES, 10, slow=3))
def test_of_a_base_and_a_part_each_has_an_effect_or_a_line_says_not(base: str) -> None:
    for part in sorted(set(PARTS) - set(RECIPES)):
        pair, turned = effective(base, part), attempted(f"{part}+{base}")
        if pair is None:
            assert isinstance(turned, str) or not attempted(f"{base}+{part}").startswith("nothing")
        elif pair == parse(base) and part in CONTRIBUTIONS[base.split("(")[0]]:
            assert turned.unused


@pytest.mark.parametrize("base", thinned(RECIPES, 0, slow=4))
def test_of_two_recipes_each_has_an_effect_or_a_line_says_not(base: str) -> None:
    for addition in set(RECIPES) - {base}:
        effective(base, addition)


def effective(base: str, addition: str) -> Objective | None:
    """A pair that is not refused: of the base is left what makes it one, and lines say what changes nothing."""
    name, pair = base.split("(")[0], attempted(f"{base}+{addition}")
    if isinstance(pair, str):
        remedy = re.search(r"or write ([^:]+)$", pair)
        assert remedy is None or "=?" in pair or isinstance(parse(remedy[1]), Objective)
        return None
    assert name == "grpo" or ESSENCES[name] & {part.name for part in pair.parts}, (base, addition)
    idle = {line.split(" has no effect: ")[0] for line in pair.unused}
    assert idle == ({addition} if pair == parse(base) else set()) | (
        {base} if addition in RECIPES and pair == parse(addition) else set()
    )
    first, *others = read_terms(pair.expression)
    if first.name not in ("grpo", name, addition.split("(")[0]):
        assert not others
        assert len(first.parameters) <= (base + addition).count("=")
    return pair


def attempted(expression: str) -> Objective | str:
    """The objective, or why there is none."""
    try:
        return parse(expression)
    except ObjectiveError as error:
        return str(error)


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        ("justrl+cispo", "justrl has no effect: cispo is the same"),
        ("justrl+m2po+s2t", "justrl has no effect: m2po+s2t is the same"),
        ("justrl+s2t+m2po", "justrl has no effect: m2po+s2t is the same"),
        ("grpo+agpo-kl", "grpo has no effect: agpo-kl is the same"),
        ("bapo+bapo(target=0.5)", "bapo has no effect: bapo(target=0.5) is the same"),
        ("dapo-clip_higher-clip_higher", "-clip_higher has no effect: it is gone already"),
    ],
)
def test_what_has_no_effect_is_a_base_or_a_removal_too(expression: str, line: str) -> None:
    assert parse(expression).unused == (line,)
