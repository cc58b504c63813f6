r"""The forms in which an answer is asked for, written and read: in `\boxed{}`, or behind words that a prompt names.

Golds and responses are read by the same rules. `\boxed{}` counts beside every other form, and before it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rlzoo.config import TaskConfig
from rlzoo.tasks.base import Problem
from rlzoo.tasks.knights_and_knaves import is_knights_and_knaves
from rlzoo.tasks.text import Boxes, Prompt, final_boxes

BOXED = "boxed"
"""The form that counts where nothing names another."""
AUTO = "auto"
"""Of `task.answer_form`: as `graded_in` finds it."""

FORM = "answer_form"
"""The key of a problem's data under which stands the form that its gold answer is written in."""

_LABEL = re.compile(r"\banswer\s{0,3}\*{0,2}:", re.IGNORECASE)
_AROUND = " \t\r*"
_SAYS = re.compile(
    r"\b(?:is|are|was|were|has|have|had|will|would|can|because|since|so|which|that|who)\b"
    r"|(?<=\s)\((?=[a-z]{3})(?!mod|base|sin|cos|tan|log)"
)
_WORDS = re.compile(r"[A-Za-z ,.;:!?'’()-]*")  # noqa: RUF001 (the apostrophe that people write)


_TITLE = re.compile(
    r"(?:\d+[.)] )?(?:step\b.*"
    r"|(?:case|part) \(?(?:\d+|[a-z]|[ivx]+)\)?"
    r"|(?:(?:the|your|my|our) )?(?:final |full |detailed |alternative )?(?:answers?|solutions?|results?|conclusions?)"
    r"|(?:quick |final |double )?(?:check|checking|verification|explanation|reasoning|analysis|setup|proof|summary)"
    r"|(?:calculations?|computations?|notes?|hints?|strategy|problem|question|given|method|approach)"
    r"|(?:add|apply|calculate|check|combine|compute|consider|define|determine|divide|evaluate|find|identify"
    r"|multiply|set up|simplify|solve|subtract|substitute|understand|use|verify|write) [a-z].*)",
    re.IGNORECASE,
)
"""The words of a heading, and nothing behind them that could be an answer."""


def behind_hashes(text: str) -> str | None:
    """What stands behind the last `####` that anything stands behind, to the end of its line.

    A heading is passed over: a line that begins with `####`, has only the words of one (`Step 2`, `Final answer`,
    `1. Find the total`), and has text below it. Other words are an answer, also above a remark: `#### yes`.
    """
    is_below = False
    for line in reversed(text.split("\n")):
        before, hashes, behind = line.rstrip(f"#{_AROUND}").rpartition("####")
        if hashes and (answer := _without_remark(behind.lstrip(f"#:{_AROUND}"))):
            is_heading = (
                is_below and not before.strip(f"#{_AROUND}") and _TITLE.fullmatch(answer.rstrip(f":.{_AROUND}"))
            )
            if not is_heading:
                return answer
        is_below = is_below or re.search(r"\w", line) is not None
    return None


def behind_label(text: str) -> str | None:
    """What stands behind the last `Answer:`, on its line or the next that is not empty."""
    end = len(text)
    for label in reversed(list(_LABEL.finditer(text))):
        behind = text[label.end() : end].lstrip(f"\n{_AROUND}").partition("\n")[0]
        if answer := _without_remark(behind.rstrip(_AROUND)):
            return answer
        end = label.start()
    return None


def in_tags(text: str) -> str | None:
    """What stands in the last `<answer></answer>`."""
    before, closed, _ = text.rpartition("</answer>")
    _, opened, inside = before.rpartition("<answer>")
    return inside.strip() or None if closed and opened else None


def _without_remark(line: str) -> str:
    """A number without the words that go on behind it: `5 apples are left` says 5 apples. Another line as it stands."""
    said = _SAYS.search(line)
    if said is None or not line.lstrip("$+-" + _AROUND)[:1].isdigit() or not _WORDS.fullmatch(line, said.start()):
        return line.strip()
    return line[: said.start()].rstrip(",;:" + _AROUND)


@dataclass(frozen=True)
class Form:
    """A form: how a sentence calls it, how it is read, and what asks for it."""

    said: str
    read: Callable[[str], str | None]
    marks: tuple[str, ...]
    """One of them is in every text that asks for it."""
    asked: re.Pattern[str]
    source: str = ""
    """The `data_source` whose prompts ask for it."""


_HEADING = r"(?<![^\n])#{4,}[ \t]+(?!answer)(?:[a-z]|\d+[.)][ \t])"
_PLACE = r"\s{0,3}(?:[$<\[{]|\.\.\.|your\b|x\b)"
_LABELLED = rf"[\"'`*]answer:|\banswer:{_PLACE}|\b(?:form|format|with|after|write)(?: of)?:? answer:"
FORMS = {
    BOXED: Form(r"in \boxed{}", lambda text: None, (r"\boxed",), re.compile(r"\\boxed")),
    "hashes": Form(
        "behind ####", behind_hashes, ("####",), re.compile(rf"(?!{_HEADING})(?<!#)####", re.I), "openai/gsm8k"
    ),
    "answer": Form("behind Answer:", behind_label, ("nswer:", "NSWER:"), re.compile(_LABELLED, re.I), "math_dapo"),
    "tags": Form("in <answer></answer>", in_tags, ("<answer>",), re.compile("<answer>")),
}
"""Name -> form, as `task.answer_form` has them. A gold answer that is a solution is read by the first that is there."""


def answer_in(text: str, form: str = BOXED) -> Boxes | None:
    """The answer that a response gives in boxes, or else in this form."""
    boxes = final_boxes(text)
    if boxes is None and (answer := FORMS[form].read(text)):
        return Boxes((answer,))
    return boxes


def written(text: str) -> tuple[str, str]:
    """The form in which a gold answer is written, and the answer, read as a response is; "" and the text if in none.

    A solution that boxes nothing, or has nothing behind `####`, has the answer "".
    """
    if boxes := final_boxes(text):
        return BOXED, str(boxes)
    forms = {name: form for name, form in FORMS.items() if any(map(text.__contains__, form.marks))}
    for name, form in forms.items():
        if (name != "answer" or "\n" in text.strip()) and (answer := form.read(text)):
            return name, answer
    return "", "" if forms.keys() & {BOXED, "hashes"} else text.strip()


def asked_for(prompt: Prompt) -> tuple[str, ...]:
    """The forms that a prompt's own words ask for, the one that is named last at the end."""
    text = prompt if isinstance(prompt, str) else "\n".join(message["content"] for message in prompt)
    places = {
        name: max((match.start() for match in form.asked.finditer(text)), default=-1)
        for name, form in FORMS.items()
        if any(map(text.__contains__, form.marks))
    }
    return tuple(sorted((name for name in places if places[name] >= 0), key=places.__getitem__))


def graded_in(prompt: Prompt, data_source: str, of_gold: str = "", asked: Sequence[str] | None = None) -> str:
    """The form that is graded where no key names one: by `data_source`, the prompt's words, or the gold answer's.

    `asked` are the forms that the prompt asks for, where they are known already.
    """
    by_source = [name for name, form in FORMS.items() if form.source == data_source != ""]
    named = () if by_source else asked_for(prompt) if asked is None else asked
    others = [name for name in named if name != BOXED]
    return (by_source or others[-1:] or list(named) or [of_gold or BOXED])[0]


def sentence(asked: Sequence[str], graded: str, boxes_count: bool = True) -> str:
    """What is asked for and what is graded, as `rlzoo task` and `rlzoo train` say it."""
    wanted = " and ".join(FORMS[name].said for name in asked) or "in no form"
    beside = f", or {FORMS[BOXED].said}" if boxes_count and graded != BOXED else ""
    return f"prompts ask for the answer {wanted}; graded is what stands {FORMS[graded].said}{beside}"


def graded_form(problem: Problem, chosen: str, asked: Sequence[str] | None = None) -> str:
    """The form that is graded besides boxes; `asked` are those that the prompt asks for, if they are known."""
    if is_knights_and_knaves(problem):
        return "tags"
    data = problem.data
    return graded_in(problem.prompt, data["data_source"], data.get(FORM, ""), asked) if chosen == AUTO else chosen


def forms_said(problems: Iterable[Problem], config: TaskConfig) -> list[str]:
    """A sentence for each form that is asked for and graded, the commonest first; none where others grade."""
    if config.reward or config.environment:
        return []
    forms = Counter(_said(problem, config.answer_form) for problem in problems if "data_source" in problem.data)
    if len(forms) < 2:
        return list(forms)
    return [f"{said} ({count} of {forms.total()})" for said, count in forms.most_common()]


def _said(problem: Problem, chosen: str) -> str:
    asked = asked_for(problem.prompt)
    return sentence(asked, graded_form(problem, chosen, asked), not is_knights_and_knaves(problem))
