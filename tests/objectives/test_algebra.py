"""The algebra of objectives: the composition rules, the canonical form, and errors that say what to do."""

import itertools
import re

import pytest

from objectives import Objective, ObjectiveError, Stage, names, parse, with_examples
from tests.objectives.contributions import CONTRIBUTIONS
from tests.objectives.zoo_sample import PAIRS, PARTS, RECIPES, SAMPLE, SETTINGS, VARIANTS
from tests.thinned import thinned


def parts(expression: str) -> dict[str, str]:
    """Name -> term of every part."""
    return {part.name: part.term() for part in parse(expression).parts}


# ---- rules 1 and 2: bases and contributions --------------------------------------------------------------------------


def test_a_recipe_brings_everything_it_publishes() -> None:
    assert list(parts("stapo").values()) == [
        "group_norm",
        "token_ratio",
        "clip",
        "clip_higher",
        "s2t",
        "token_mean",
        "single_pass",
    ]
    assert set(parts("dapo")) == set(parts("justrl")) | {"soft_overlong", "dynamic_sampling"}
    assert parts("grpo")["kl"] == "kl"


@pytest.mark.parametrize("part", sorted(set(PARTS) - set(RECIPES)))
def test_a_part_alone_stands_on_grpo(part: str) -> None:
    assert parse(part) == parse(f"grpo+{part}")


@pytest.mark.parametrize("addition", CONTRIBUTIONS)
def test_a_further_recipe_adds_its_contribution_only(addition: str) -> None:
    added = next(recipe for recipe in RECIPES if recipe.split("(")[0] == addition)
    before, after = parts("grpo"), parts(f"grpo+{added}")
    assert set(after) - set(before) == CONTRIBUTIONS[addition] - set(before)
    taken = {part.stage for part in parse(f"grpo+{added}").parts if part.exclusive and part.name not in before}
    assert set(before) - set(after) == {part.name for part in parse("grpo").parts if part.stage in taken}


def test_parameters_of_a_recipe_reach_the_part_they_belong_to() -> None:
    assert parts("stapo(tau_p=0.005,low=0.1,high=0.3)")["s2t"] == "s2t(tau_p=0.005)"
    assert parts("stapo(tau_p=0.005,low=0.1,high=0.3)")["clip"] == "clip(low=0.1)"
    assert parts("stapo(tau_p=0.005,low=0.1,high=0.3)")["clip_higher"] == "clip_higher(high=0.3)"
    assert parts("grpo+stapo(tau_p=0.005)")["s2t"] == "s2t(tau_p=0.005)"
    assert parts("grpo+lopti(variant=authors)")["lopti"] == "lopti(eta=0.4)"
    assert "dual_clip" not in parts("grpo+lopti(variant=authors)")


# ---- rule 3: stages that collect, stages that hold one ---------------------------------------------------------------


def test_stages_that_hold_many_collect() -> None:
    mixture = parts("stapo+entropy20+ar+stare+kl+entropy_bonus+dual_clip+overlong_filter+dapo")
    assert {"s2t", "top_entropy", "advantage_reweighting", "surprisal_reweighting", "kl", "entropy_bonus"} <= set(
        mixture
    )
    assert {"clip", "clip_higher", "dual_clip", "overlong_filter", "dynamic_sampling"} <= set(mixture)


@pytest.mark.parametrize(
    ("base", "addition", "gone"),
    [
        ("stapo", "seq_mean", "token_mean"),
        ("grpo", "token_mean", "seq_mean"),
        ("grpo", "group_center", "group_norm"),
        ("grpo", "lopti", "single_pass"),
    ],
)
def test_an_addition_replaces_what_a_stage_holds(base: str, addition: str, gone: str) -> None:
    assert addition in parts(f"{base}+{addition}")
    assert gone not in parts(f"{base}+{addition}")


def test_stages_are_in_order_and_complete() -> None:
    needed = [Stage.ADVANTAGE, Stage.RATIO, Stage.SURROGATE, Stage.AGGREGATE, Stage.SCHEDULE]
    for expression in (*SAMPLE, *SETTINGS):
        stages = [part.stage for part in parse(expression).parts]
        assert stages == sorted(stages), expression
        assert sorted(part.stage for part in parse(expression).parts if part.exclusive) == needed, expression


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("dapo+seq_mean+token_mean", ["seq_mean", "token_mean", "aggregate", "leave one"]),
        ("grpo+group_center+group_norm", ["group_center", "group_norm", "advantage", "leave one"]),
        ("grpo+lopti+single_pass", ["lopti", "single_pass", "schedule", "leave one"]),
        ("grpo+token_mean+token_mean(scope=prompt)", ["token_mean", "scope=prompt", "leave one"]),
        ("grpo+justrl+seq_mean", ["token_mean (of justrl)", "seq_mean", "leave one"]),
        ("grpo+ar(alpha=0.1)+ar(alpha=0.2)", ["alpha=0.1", "alpha=0.2", "leave one"]),
        ("stapo+clip_higher(high=0.3)+dapo", ["clip_higher(high=0.3)", "clip_higher (of dapo)", "leave one"]),
    ],
)
def test_additions_that_exclude_each_other_are_named(expression: str, said: list[str]) -> None:
    refuses(expression, *said)
    base, *terms = expression.split("+")
    for order in itertools.permutations(terms):
        refuses("+".join([base, *order]), "leave one")


def refuses(expression: str, *said: str) -> None:
    with pytest.raises(ObjectiveError) as raised:
        parse(expression)
    message = str(raised.value)
    assert all(word in message for word in said), message
    assert "\n" not in message
    assert len(message) < 400


# ---- rule 4: order, repetition, identity -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "terms", list(itertools.combinations(["s2t", "lopti", "clip_higher(high=0.3)", "ar", "kl"], 3))
)
def test_additions_commute_and_repeat_without_effect(terms: tuple[str, ...]) -> None:
    plain = parse("+".join(["dapo", *terms]))
    for order in itertools.permutations(terms):
        assert parse("+".join(["dapo", *order])) == plain
        assert parse("+".join(["dapo", *order, *terms])) == plain
        assert parse(" + ".join(["dapo", *order])).expression == plain.expression


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        ("stapo", []),
        ("stapo+clip_higher", ["clip_higher"]),
        ("stapo+clip_higher(high=0.3)", []),
        ("grpo+s2t+stapo", ["stapo"]),
        ("grpo+stapo+s2t", ["s2t"]),
        ("grpo+justrl+clip_higher", ["clip_higher"]),
        ("clip_higher+justrl", ["clip_higher"]),
        ("dapo+dapo+lopti", ["dapo"]),
        ("clip", ["clip"]),
    ],
)
def test_what_is_typed_and_has_no_effect_is_said_in_a_line(expression: str, lines: list[str]) -> None:
    assert [*parse(expression).unused] == [f"{name} has no effect: it is there already" for name in lines]
    assert parse(expression) == parse(parse(expression).expression)


@pytest.mark.parametrize(
    "expression",
    [
        "bapo+dual_clip",
        "kl_cov+clip",
        "dppo+token_ratio",
        "grpo+unclipped",
        "gpg+group_norm",
        "gpg+group_center",
        "reinforce+group_center",
        "grpo+center_then_global_norm",
    ],
)
def test_a_name_is_never_explained_by_a_method_that_was_not_typed(expression: str) -> None:
    assert str(parse(expression)) == expression


def test_the_canonical_form_reads_back_as_itself() -> None:
    for expression in (*SAMPLE, *SETTINGS):
        objective = parse(expression)
        again = parse(objective.expression)
        assert again == objective, expression
        assert hash(again) == hash(objective), expression
        assert again.expression == objective.expression == str(objective)


def parsed(expression: str) -> Objective | None:
    """The objective, or None where the parts exclude each other."""
    try:
        return parse(expression)
    except ObjectiveError as error:
        assert re.search(r": (leave (one of them|it) out|add -\w+)", str(error)), error
        return None


@pytest.mark.parametrize("base", thinned(VARIANTS, 3))
def test_every_setting_on_a_variant_reads_back_as_itself(base: str) -> None:
    found = {setting: objective for setting in SETTINGS if (objective := parsed(f"{base}+{setting}"))}
    assert len(found) > 0.7 * len(SETTINGS)
    for setting, objective in found.items():
        assert parse(objective.expression) == objective
        assert parse(f"{base}+{setting}+{setting}") == objective


@pytest.mark.slow
def test_different_objectives_have_different_canonical_forms_and_keys() -> None:
    objectives = {parsed(f"{base}+{setting}") for base in VARIANTS for setting in SETTINGS} - {None}
    objectives |= {parse(expression) for expression in [*VARIANTS, *PAIRS]}
    assert len({objective.expression for objective in objectives}) == len(objectives)
    assert len({objective.key for objective in objectives}) == len(objectives)


@pytest.mark.parametrize(
    ("expression", "canonical"),
    [
        ("stapo", "stapo"),
        ("stapo(tau_p=0.002, q=0.75)", "stapo"),
        ("grpo+dapo", "dapo+kl"),
        ("justrl+s2t", "stapo"),
        ("stapo+clip_higher", "stapo"),
        ("stapo(variant=paper)", "stapo"),
        ("stapo(variant=v1)", "stapo(q=0.8)"),
        ("20_entropy", "entropy20"),
        ("ar", "advantage_reweighting"),
        ("dapo-dynamic_sampling-soft_overlong", "justrl"),
        ("stapo+ar(alpha=0.10)", "stapo+advantage_reweighting(alpha=0.1)"),
        ("s2t", "grpo+s2t"),
        ("grpo+clip_higher(high=3e-1)", "grpo+clip_higher(high=0.3)"),
        ("grpo(beta=0)", "grpo(beta=0.0)"),
    ],
)
def test_the_canonical_form_is_the_shortest_name(expression: str, canonical: str) -> None:
    assert parse(expression).expression == canonical


def test_equal_objectives_are_one_key() -> None:
    assert {parse("justrl+s2t"): 1}[parse("stapo")] == 1
    assert parse("stapo") != parse("stapo(q=0.8)")
    assert parse("stapo") != "stapo"
    assert parse("kl(beta=-0.0)").expression == parse("kl(beta=0.0)").expression


def test_an_objective_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        parse("grpo").parts = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        parse("grpo").parts[0].eps = 1.0  # type: ignore[attr-defined]


# ---- rule 5: removals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "equal"),
    [
        ("stapo-s2t", "justrl"),
        ("stapo-stapo", "justrl"),
        ("grpo-kl", "grpo-kl"),
        ("dapo-dapo", "grpo-kl"),
        ("dapo-token_mean", "dapo+seq_mean"),
        ("grpo+group_center-kl", "grpo-kl+group_center"),
        ("lopti-lopti", "ar-advantage_reweighting"),
        ("dapo-clip_higher-clip_higher", "dapo-clip_higher"),
        ("dapo-clip_higher+s2t", "dapo+s2t-clip_higher"),
        ("stapo+entropy20-entropy20", ""),
    ],
)
def test_removals_take_a_part_or_a_contribution_away(expression: str, equal: str) -> None:
    if equal:
        assert parse(expression) == parse(equal)
    else:
        refuses(expression, "entropy20", "both added and removed")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("justrl-kl", ["cannot remove kl", "not there", "clip_higher"]),
        ("justrl-stapo", ["cannot remove s2t", "of stapo", "not there"]),
        ("grpo-lopti", ["cannot remove lopti", "not there"]),
        ("grpo-clip", ["cannot remove clip", "surrogate", "needs one"]),
        ("grpo-group_norm", ["cannot remove group_norm", "group_center"]),
        ("grpo-seq_mean", ["cannot remove seq_mean", "token_mean"]),
        ("grpo-grpo", ["cannot remove group_norm"]),
        ("grpo-kl(beta=1)", ["kl", "no parameters"]),
        ("grpo+ar-advantage_reweighting", ["both added and removed"]),
        ("grpo+stapo-s2t", ["both added and removed"]),
        ("dapo+s2t-stapo", ["both added and removed"]),
        ("grpo+justrl-clip_higher-token_mean", ["both added and removed"]),
        ("grpo+advantage_reweighting-ar", ["both added and removed"]),
        ("grpo-klx", ["klx", "did you mean kl"]),
    ],
)
def test_removals_that_make_no_sense_say_why(expression: str, said: list[str]) -> None:
    refuses(expression, *said)


@pytest.mark.parametrize("base", thinned(VARIANTS, 3))
def test_a_removal_undoes_a_recipes_own_part_and_contradicts_an_addition(base: str) -> None:
    plain = parse(base)
    for part in sorted(set(PARTS) - set(RECIPES)):
        more = parsed(f"{base}+{part}")
        name = part.split("(")[0]
        refuses(f"{base}+{part}-{name}", "both added and removed")
        if more and len(more.parts) > len(plain.parts) and f"+{name}" not in more.expression:
            assert parse(f"{more}-{name}") == plain


# ---- rule 6: unknown names, types and ranges -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("stap", ["unknown objective 'stap'", "stapo"]),
        ("dapo+loptii", ["unknown objective 'loptii'", "lopti"]),
        ("grpo+clip_hihger", ["clip_higher"]),
        ("entropy_20", ["entropy20"]),
        ("GRPO", ["unknown objective 'GRPO'"]),
        ("zzzzzzzz", ["unknown", "known:", "dapo", "more recipes"]),
        ("grpo+s2t(tau=0.1)", ["s2t has no parameter 'tau'", "tau_p"]),
        ("stapo(taup=0.1)", ["stapo has no parameter 'taup'", "tau_p"]),
        ("grpo+stapo(low=0.1)", ["stapo has no parameter 'low'"]),
        ("dynamic_sampling(k=1)", ["dynamic_sampling has no parameter 'k'", "none"]),
        ("grpo(variant=author)", ["grpo", "variant=author", "paper"]),
        ("stapo(variant=v2)", ["v2", "paper", "v1", "justrl"]),
        ("s2t(tau_p=2)", ["s2t", "tau_p=2", "[0, 1]"]),
        ("s2t(tau_p=-0.1)", ["tau_p=-0.1", "[0, 1]"]),
        ("top_entropy(fraction=0)", ["fraction=0", "(0, 1]"]),
        ("dual_clip(cap=1)", ["cap=1", "(1, inf)"]),
        ("stare(amplify=0.9)", ["amplify=0.9", "[1, inf)"]),
        ("stare(attenuate=0)", ["attenuate=0", "(0, 1]"]),
        ("kl(beta=1e999)", ["beta=inf", "[0, inf)"]),
        ("kl(beta=nan)", ["beta=nan", "float"]),
        ("kl(estimator=k4)", ["estimator=k4", "k1, k2, k3"]),
        ("soft_overlong(cache=1.5)", ["cache=1.5", "int"]),
        ("stare(adaptive=1)", ["adaptive=1", "bool"]),
        ("ar(alpha=true)", ["alpha=true", "float"]),
        ("ar(alpha=none)", ["alpha=none", "float"]),
        ("stare(adaptive=true,target_entropy=none)", ["adaptive", "target_entropy"]),
        ("ar(alpha=0.1,alpha=0.2)", ["alpha", "twice"]),
        ("", ["expected the name", "character 1", "the end"]),
        ("+grpo", ["expected the name", "character 1"]),
        ("grpo+", ["expected the name", "character 6", "the end"]),
        ("grpo++ar", ["expected the name", "character 6", "'+ar'"]),
        ("grpo ar", ["'+' or '-'", "character 6"]),
        ("grpo(low)", ["key=value of grpo", "character 6"]),
        ("grpo(low=0.1", ["missing ) at the end, of grpo("]),
        ("grpo(", ["missing ) at the end, of grpo("]),
        ("grpo(low=0.1,)", ["key=value of grpo", "character 14"]),
        ("grpo(low=0.1)x", ["'+' or '-'", "character 14"]),
        ("grpo)", ["'+' or '-'", "character 5"]),
        ("grpo(low=__import__('os'))", ["key=value of grpo"]),
        ("grpo\n+\nzzzzzzzz\n", ["unknown"]),
        ("a" * 300, ["unknown objective"]),
        ("grpo" * 1000, ["4000 characters", "2000"]),
        ("grpo(" + "x" * 500 + "=1)", ["grpo has no parameter"]),
        ("grpo(variant=" + "x" * 500 + ")", ["variant"]),
        ("kl(estimator=" + "x" * 500 + ")", ["estimator"]),
    ],
)
def test_mistakes_are_answered_in_one_short_line_with_the_remedy(expression: str, said: list[str]) -> None:
    refuses(expression, *said)


@pytest.mark.parametrize("name", ["loptii", "advantage_reweightin", "zzzzzz"])
def test_a_name_is_proposed_once(name: str) -> None:
    with pytest.raises(ObjectiveError) as raised:
        parse(name)
    proposed = re.split(r": | or |, |\?|mean ", str(raised.value))
    assert proposed.count("lopti") <= 1
    assert proposed.count("advantage_reweighting") <= 1


@pytest.mark.parametrize("thing", [None, 3, b"grpo", ["grpo"]])
def test_what_is_not_text_is_refused_as_well(thing: object) -> None:
    with pytest.raises(ObjectiveError, match="text"):
        parse(thing)  # type: ignore[arg-type]


def test_the_zoo_lists_every_name_with_what_it_is() -> None:
    assert {recipe.split("(")[0] for recipe in RECIPES} == set(CONTRIBUTIONS)
    for name in (name for name in names() if ":" not in name.name):
        assert name.summary
        assert name.paper.startswith(("arXiv:", "doi:")) or re.search(r" \d{4}$", name.paper)
        assert isinstance(parse(with_examples(name)), Objective)
        assert all(parse(alias) == parse(name.name) for alias in name.aliases)
        if name.asked:
            refuses(name.name, *name.asked, "we know no published value")
    assert {"20_entropy", "ar"} <= {alias for name in names() for alias in name.aliases}
