"""The algebra of objectives: the composition rules, the canonical form, and errors that say what to do.

`equal.txt` has expressions that mean the same, `refused.txt` those that are refused.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from objectives import Objective, ObjectiveError, Stage, names, parse, read_terms, with_examples
from objectives.zoo import RECIPES as REGISTERED
from tests.objectives.zoo_sample import PAIRS, PARTS, RECIPES, REFUSED_PAIRS, SAMPLE, SETTINGS, VARIANTS
from tests.thinned import at_night

LATER = sorted(set(PARTS) - set(RECIPES))
BASES = ["stapo(variant=paper)", "gspo(variant=paper)", "dapo(variant=authors)"]
"""On which every part and setting is tried with each change; the night has all variants."""


def lines(name: str, separator: str) -> Iterator[tuple[str, str]]:
    """The two sides of each line of a file beside this one."""
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            first, second = line.split(separator)
            yield first, second


def parts(expression: str) -> dict[str, str]:
    """Name -> term of every part."""
    return {part.name: part.term() for part in parse(expression).parts}


def refuses(expression: object, *said: str) -> None:
    """The expression is refused in one short line that says these words."""
    with pytest.raises(ObjectiveError) as raised:
        parse(expression)  # type: ignore[arg-type]
    message = str(raised.value)
    assert all(word in message for word in said), f"{expression}: {message}"
    assert "\n" not in message and len(message) < 400, message


def parsed(expression: str) -> Objective | None:
    """The objective, or None where the parts exclude each other."""
    try:
        return parse(expression)
    except ObjectiveError as error:
        assert re.search(r": (leave (one of them|it) out|add -\w+)", str(error)), error
        return None


# ---- bases, contributions and stages ---------------------------------------------------------------------------------


def test_a_recipe_brings_everything_it_publishes() -> None:
    expected = ["group_norm", "token_ratio", "clip", "clip_higher", "s2t", "token_mean", "single_pass"]
    assert list(parts("stapo").values()) == expected
    assert set(parts("dapo")) == set(parts("justrl")) | {"soft_overlong", "dynamic_sampling"}
    assert parts("grpo")["kl"] == "kl"


def test_a_further_recipe_adds_its_contribution_only_and_a_part_alone_stands_on_grpo() -> None:
    for part in LATER:
        assert parse(part) == parse(f"grpo+{part}")
    before = parts("grpo")
    for added in RECIPES:
        after, idea = parts(f"grpo+{added}"), REGISTERED[added.split("(")[0]].contribution
        contribution = {*idea} & parts(added).keys()
        assert set(after) - set(before) == contribution - set(before), added
        taken = {part.stage for part in parse(f"grpo+{added}").parts if part.exclusive and part.name not in before}
        gone = {part.name for part in parse("grpo").parts if part.stage in taken}
        assert set(before) - set(after) == gone, added


def test_parameters_of_a_recipe_reach_the_part_they_belong_to() -> None:
    found = parts("stapo(tau_p=0.005,low=0.1,high=0.3)")
    assert [found[name] for name in ("s2t", "clip", "clip_higher")] == [
        *("s2t(tau_p=0.005)", "clip(low=0.1)", "clip_higher(high=0.3)")
    ]
    assert parts("grpo+stapo(tau_p=0.005)")["s2t"] == "s2t(tau_p=0.005)"
    assert parts("grpo+lopti(variant=authors)")["lopti"] == "lopti(eta=0.4)"
    assert "dual_clip" not in parts("grpo+lopti(variant=authors)")


def test_stages_that_hold_many_collect_and_an_addition_replaces_what_a_stage_of_one_holds() -> None:
    mixture = parts("stapo+entropy20+ar+stare+kl+entropy_bonus+dual_clip+overlong_filter+dapo")
    assert mixture.keys() >= {"s2t", "top_entropy", "advantage_reweighting", "surprisal_reweighting", "entropy_bonus"}
    assert mixture.keys() >= {"kl", "clip", "clip_higher", "dual_clip", "overlong_filter", "dynamic_sampling"}
    for base, addition, gone in (
        ("stapo", "seq_mean", "token_mean"),
        ("grpo", "token_mean", "seq_mean"),
        ("grpo", "group_center", "group_norm"),
        ("grpo", "lopti", "single_pass"),
        ("grpo", "kl_reward(to_go=true)+global_norm", "group_norm"),
    ):
        found = parts(f"{base}+{addition}")
        assert addition.split("+")[-1] in found and gone not in found


def test_stages_are_in_order_and_complete() -> None:
    needed = [Stage.ADVANTAGE, Stage.RATIO, Stage.SURROGATE, Stage.AGGREGATE, Stage.SCHEDULE]
    for expression in (*SAMPLE, *SETTINGS):
        stages = [part.stage for part in parse(expression).parts]
        assert stages == sorted(stages), expression
        assert sorted(part.stage for part in parse(expression).parts if part.exclusive) == needed, expression


def test_inherited_bounds_and_weights_that_nothing_reads_are_dropped() -> None:
    for base, surrogate in itertools.product(
        ("dapo", "dapo(variant=authors)", "justrl", "stapo", "gspo"), ("cispo", "unclipped", "implicit_negative")
    ):
        assert {"clip_higher", "dual_clip"} & parts(base).keys()
        assert not {"clip_higher", "dual_clip"} & parts(f"{base}+{surrogate}").keys()
    assert "zone_reweighting" in parts("hapo") and "zone_reweighting" not in parts("hapo+nft")


# ---- order, repetition, identity -------------------------------------------------------------------------------------


def test_expressions_that_mean_the_same_are_the_same() -> None:
    for first, second in lines("equal.txt", " == "):
        assert parse(first) == parse(second) and parse(first).key == parse(second).key, first
        assert parse(parse(first).expression) == parse(parse(second).expression), first
    assert {parse("justrl+s2t"): 1}[parse("stapo")] == 1
    assert parse("stapo") != parse("stapo(q=0.8)") and parse("stapo") != "stapo"
    assert parse("stapo").key.startswith(
        "group_norm(eps=1e-06) . token_ratio . clip(low=0.2) . clip_higher(high=0.28) . s2t(tau_p=0.002"
    )


def test_terms_are_read_as_written() -> None:
    first, second = read_terms("stapo(q=0.80) - s2t")
    assert (first.sign, first.name, first.parameters) == ("+", "stapo", {"q": 0.8})
    assert (second.sign, second.name, second.parameters) == ("-", "s2t", {})


def test_an_objective_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        parse("grpo").parts = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        parse("grpo").parts[0].eps = 1.0  # type: ignore[attr-defined]


def test_the_canonical_form_is_the_shortest_name() -> None:
    for expression, canonical in {
        "stapo": "stapo",
        "stapo(tau_p=0.002, q=0.75)": "stapo",
        "grpo+dapo": "dapo+kl",
        "justrl+s2t": "stapo",
        "stapo+clip_higher": "stapo",
        "stapo(variant=paper)": "stapo",
        "stapo(variant=v1)": "stapo(q=0.8)",
        "rec(variant=is)": "rec(weighted=true)",
        "20_entropy": "entropy20",
        "ar": "advantage_reweighting",
        "dapo-dynamic_sampling-soft_overlong": "justrl",
        "stapo+ar(alpha=0.10)": "stapo+advantage_reweighting(alpha=0.1)",
        "s2t": "grpo+s2t",
        "grpo+clip_higher(high=3e-1)": "grpo+clip_higher(high=0.3)",
        "grpo(beta=0)": "grpo(beta=0.0)",
    }.items():
        assert parse(expression).expression == canonical


def test_a_name_is_never_explained_by_a_method_that_was_not_typed() -> None:
    for expression in (
        *("bapo+dual_clip", "kl_cov+clip", "dppo+token_ratio", "grpo+unclipped", "gpg+group_norm", "gpg+group_center"),
        *("reinforce+group_center", "grpo+center_then_global_norm"),
        *("grpo+taper-kl", "grpo+divergence_clip-kl", "grpo+implicit_negative-kl", "grpo+unclipped-kl"),
    ):
        assert str(parse(expression)) == expression


@pytest.mark.parametrize("base", at_night(BASES, VARIANTS))
def test_every_setting_on_a_variant_reads_back_as_itself_and_every_removal_undoes_what_it_removes(base: str) -> None:
    found = {setting: objective for setting in SETTINGS if (objective := parsed(f"{base}+{setting}"))}
    assert len(found) > 0.7 * len(SETTINGS)
    for setting, objective in found.items():
        assert parse(objective.expression) == objective
        assert parse(f"{base}+{setting}+{setting}") == objective
    plain = parse(base)
    for part in LATER:
        more, name = parsed(f"{base}+{part}"), part.split("(")[0]
        refuses(f"{base}+{part}-{name}", "both added and removed")
        if more and len(more.parts) > len(plain.parts) and f"+{name}" not in more.expression:
            assert parse(f"{more}-{name}") == plain


@pytest.mark.exhaustive
def test_different_objectives_have_different_canonical_forms_and_keys() -> None:
    objectives = {parsed(f"{base}+{setting}") for base in VARIANTS for setting in SETTINGS} - {None}
    objectives |= {parse(expression) for expression in [*VARIANTS, *PAIRS]}
    assert len({objective.expression for objective in objectives}) == len(objectives)
    assert len({objective.key for objective in objectives}) == len(objectives)


def test_an_objective_without_a_part_is_what_its_removal_says() -> None:
    grpo = parse("grpo").parts
    for expression in (*VARIANTS, "stapo+kl+clip_higher(high=0.4)", "grpo+group_center"):
        objective = parse(expression)
        for part in objective.parts:
            others = [other for other in objective.parts if other is not part]
            fallback = [other for other in grpo if part.exclusive and other.stage == part.stage]
            refusal = ""
            if fallback and fallback[0].name == part.name:
                refusal = f"cannot remove {part.name}: stage .* needs one part; add another"
            elif part.name == "global_norm":
                refusal = "one reward per token, but group_norm takes one per response"
            if refusal:
                with pytest.raises(ObjectiveError, match=refusal):
                    objective.without(part.name)
            else:
                assert objective.without(part.name) == Objective((*others, *fallback))
    assert parse("stapo").without("clip_higher") == parse("stapo-clip_higher")
    with pytest.raises(ObjectiveError, match="cannot remove nothing: it is not there; the objective has"):
        parse("stapo").without("nothing")


# ---- what is typed has an effect, or a line or an error says that it has none ----------------------------------------


def test_what_is_typed_and_has_no_effect_is_said_in_a_line() -> None:
    for expression, idle in {
        "stapo": [],
        "stapo+clip_higher": ["clip_higher"],
        "stapo+clip_higher(high=0.3)": [],
        "grpo+s2t+stapo": ["stapo"],
        "grpo+stapo+s2t": ["s2t"],
        "grpo+justrl+clip_higher": ["clip_higher"],
        "clip_higher+justrl": ["clip_higher"],
        "dapo+dapo+lopti": ["dapo"],
        "clip": ["clip"],
    }.items():
        assert [*parse(expression).unused] == [f"{name} has no effect: it is there already" for name in idle]
    for expression, line in {
        "justrl+cispo": "justrl has no effect: cispo is the same",
        "justrl+m2po+s2t": "justrl has no effect: m2po+s2t is the same",
        "justrl+s2t+m2po": "justrl has no effect: m2po+s2t is the same",
        "grpo+agpo-kl": "grpo has no effect: agpo-kl is the same",
        "bapo+bapo(target=0.5)": "bapo has no effect: bapo(target=0.5) is the same",
        "dapo-clip_higher-clip_higher": "-clip_higher has no effect: it is gone already",
    }.items():
        assert parse(expression).unused == (line,)
    both = ("token_mean has no effect: it is there already", "clip_higher has no effect: it is there already")
    assert parse("dapo+token_mean+lopti+clip_higher").unused == both  # in the order in which they were typed


NOTICES = {
    "grpo(beta=0)": "kl(beta=0.0): changes nothing, and the reference model is loaded for it. Write -kl.",
    "stapo(tau_p=0)": "s2t(tau_p=0.0): changes nothing. Write -s2t.",
    "stare(amplify=1)": "surprisal_reweighting(amplify=1.0): changes nothing. Write -surprisal_reweighting.",
    "entropy20(fraction=1)": "top_entropy(fraction=1.0): changes nothing. Write -top_entropy.",
    "grpo+kl(estimator=k1)": "kl(estimator=k1): no reference in its gradient",
    "grpo+unbiased_kl": "kl, unbiased_kl: each is a divergence from the reference. Write -kl or leave out +",
    "grpo+kl_reward": "kl, kl_reward: each is a divergence from the reference. Write -kl or leave out +kl_reward.",
    "reinforce_pp+kl": "kl, kl_reward: each is a divergence from the reference. Write -kl_reward or leave out +kl.",
    "magic+entropy_bonus": "adaptive_entropy, entropy_bonus: each is an entropy bonus.",
    "opd+teacher_kl": "teacher_advantage, teacher_kl: each is a pull towards the teacher.",
    "gspo+clip_higher": "clip_higher(high=0.28): far wider than clip(low=0.0003)",
    "gspo+dapo": "clip_higher(high=0.28): far wider than clip(low=0.0003)",
    "gspo+justrl": "clip_higher(high=0.28): far wider than clip(low=0.0003)",
    "hapo+gspo": "zone_reweighting: its zones are those of heterogeneous_clip, which is not there.",
    "m2po+clip": "second_moment_mask, clip: the mask is meant to replace a clip.",
    "w_reinforce+dynamic_sampling": "dynamic_sampling: drops groups that are right or wrong as a whole",
    "topr+dynamic_sampling": "dynamic_sampling: drops groups that are right or wrong as a whole",
    "nft+leave_one_out": "leave_one_out: changes nothing, as implicit_negative reads no advantage. Leave it out.",
    "gspo+no_reward": "no_reward: nothing adds to A, which stays 0, so that only added losses teach.",
    "gspo+off_policy_mask(delta=0.1)": "off_policy_mask(delta=0.1): changes nothing, as the clip cuts off",
    "opd+stapo": "s2t: goes by rewards, which no_reward does not look at. Leave out +stapo.",
    "opd+stare": "surprisal_reweighting: goes by rewards, which no_reward does not look at.",
    "opd+dynamic_sampling": "dynamic_sampling: goes by rewards, which no_reward does not look at.",
    "opsd+sampler_correction": "sampler_correction: changes nothing, as A is 0 until teacher_advantage(source=current)",
    "grpo+teacher_advantage(source=current)+sampler_correction": "sampler_correction: does not weigh what teacher",
    "entropy_advantage+no_reward": "no_reward: nothing adds to A, which stays 0",
    "dapo+dynamic_sampling_by_reward": "dynamic_sampling, dynamic_sampling_by_reward: each is a filter of groups",
    "topr+live_only": "live_only: drops next to nothing, as A of signed_reward is hardly ever 0.",
    "real+group_norm": "group_norm: group_contrast reads only the sign of A.",
    "grpo+sampler_correction(low=3,cap=2)": "sampler_correction: low=3 exceeds cap=2. Lower one of them.",
    "grpo+clip_cov(low=5,high=5)": "clip_cov: masks nothing, as low=5 is not below high=5. Lower it.",
}


def test_what_is_allowed_and_misleads_has_a_notice_of_one_line() -> None:
    for expression, beginning in NOTICES.items():
        (notice,) = parse(expression).notices
        assert notice.startswith(beginning) and "\n" not in notice and len(notice) < 170, (expression, notice)
    nothing, _ = parse("arm(alpha=0.5)+no_reward").notices
    assert nothing.startswith(NOTICES["entropy_advantage+no_reward"])
    early = "grpo+teacher_advantage(source=old)+sampler_correction"  # the remedy of a notice
    for variant in (*VARIANTS, "grpo+random_tokens(share=1,limit=2)", early):
        assert parse(variant).notices == (), variant


def test_the_remedy_of_a_notice_works() -> None:
    tried = 0
    for expression in NOTICES:
        (notice,) = parse(expression).notices
        remedy = notice.rpartition(". ")[2]
        others = [expression + removal for removal in re.findall(r"(?<= )-\w+", remedy)]
        for name in re.findall(r"eave out \+(\w+)", remedy):
            others.append(re.sub(rf"\+{name}(\([^)]*\))?", "", expression))
        for other in others:
            assert notice not in parse(other).notices, (expression, other)
        tried += len(others)
    assert tried > 20


def effective(base: str, addition: str) -> Objective | None:
    """A pair that is not refused: of the base is left what makes it one, and lines say what changes nothing."""
    name, pair = base.split("(")[0], attempted(f"{base}+{addition}")
    if isinstance(pair, str):
        remedy = re.search(r"or write ([^:]+)$", pair)
        assert remedy is None or "=?" in pair or isinstance(parse(remedy[1]), Objective)
        return None
    assert name == "grpo" or {*REGISTERED[name].essential} & {part.name for part in pair.parts}, (base, addition)
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


@pytest.mark.parametrize("base", at_night(RECIPES[::10], RECIPES))
def test_of_a_base_and_what_is_added_each_has_an_effect_or_a_line_says_not(base: str) -> None:
    for part in LATER:
        pair, turned = effective(base, part), attempted(f"{part}+{base}")
        if pair is None:
            assert isinstance(turned, str) or not str(attempted(f"{base}+{part}")).startswith("nothing")
        elif pair == parse(base) and part in REGISTERED[base.split("(")[0]].contribution:
            assert turned.unused
    for addition in set(RECIPES) - {base}:
        effective(base, addition)


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_mistakes_are_answered_in_one_short_line_with_the_remedy() -> None:
    refused = dict(lines("refused.txt", " => "))
    for expression, said in refused.items():
        refuses(expression, *said.split(" / "))
        base, *terms = expression.split("+")
        if "leave one" in said and "nothing of" not in said and "=" not in base:
            for order in itertools.permutations(terms):
                refuses("+".join([base, *order]), "leave one")
    assert len(refused) > 130
    for expression, words in (
        ("", ["expected the name", "character 1", "the end"]),
        ("grpo\n+\nzzzzzzzz\n", ["unknown"]),
        ("a" * 300, ["unknown objective"]),
        ("grpo" * 1000, ["4000 characters", "2000"]),
        ("grpo(" + "x" * 500 + "=1)", ["grpo has no parameter"]),
        ("grpo(variant=" + "x" * 500 + ")", ["variant"]),
        ("kl(estimator=" + "x" * 500 + ")", ["estimator"]),
        *((thing, ["text"]) for thing in (None, 3, b"grpo", ["grpo"])),
    ):
        refuses(expression, *words)


def test_a_remedy_works() -> None:
    assert "clip" in parts("kl_cov+clip") and parse("bapo(upper_most=500000,upper_step=100)")
    for setting in ("alpha=0.5", "low=0.1", "high=0.2", "rho=0.5", "scope=microbatch"):
        assert parse(f"hapo+zone_reweighting({setting})+heterogeneous_clip({setting})")
    for expression in REFUSED_PAIRS:
        with pytest.raises(ObjectiveError) as raised:
            parse(expression)
        message = str(raised.value)
        assert "\n" not in message
        if removal := re.search(r": add (-[\w-]+)$", message):
            parse(expression + removal[1])
        else:
            assert re.search(r": leave (one of them|it) out", message), message


def test_a_name_is_proposed_once() -> None:
    for name in ("loptii", "advantage_reweightin", "zzzzzz"):
        proposed = re.split(r": | or |, |\?|mean ", attempted(name))
        assert proposed.count("lopti") <= 1 and proposed.count("advantage_reweighting") <= 1


def test_the_zoo_lists_every_name_with_what_it_is() -> None:
    for name in (name for name in names() if ":" not in name.name):
        assert name.summary and bool(name.doc) == (name.kind == "recipe"), name.name
        assert name.paper.startswith(("arXiv:", "doi:")) or re.search(r" \d{4}$", name.paper), name.name
        assert isinstance(parse(with_examples(name)), Objective)
        assert all(parse(alias) == parse(name.name) for alias in name.aliases)
        if name.required_parameters:
            refuses(name.name, *name.required_parameters, "we know no published value")
    assert {"20_entropy", "ar"} <= {alias for name in names() for alias in name.aliases}
    assert parse("grpo+epochs(count=1)").pass_count == 1 and parse("grpo+epochs(count=3)").pass_count == 3
    assert parse("shuffle_r1").learning_group == 4 and parse("shuffle_r1(share=1)").learning_group == 2
