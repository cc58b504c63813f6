r"""Knights and Knaves for two or three people, in a language so compact that an embedded model learns it.

    A:B0,B:A#C,C:A&C?   011:010,101:101=101
    \---------------/   \-----------------/
         prompt                  response

Knights (1) say the truth, knaves (0) do not. `B0` and `B1` say what B is, `A=C` that two are of a kind, `A#C` that they
are not, `A&B` that both are knights, `A|B` that at least one of them is. The response tries an assignment of roles and
writes what each claim is worth under it; unless these are the roles themselves, it tries another. What stands behind
the last `=` is its answer.

**Problems** are all combinations of claims under which one assignment alone is possible. A hash of the prompt says
which are held out, one in eight is; both splits are the same on every machine. There are so few problems that nearly
every held-out one is a training problem with the people renamed.

**Grade.** The response must have that form to its last character, and only the answer counts.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations, product

from rlzoo.errors import UserError
from rlzoo.tasks.base import ExactGrader, Grader, Problem
from rlzoo.tasks.text import is_held_out

Roles = tuple[int, ...]
"""1 for a knight and 0 for a knave, in the order of the alphabet; also what each one's claim is worth."""

PEOPLE = (2, 3)
MAX_TRIES = 4
_TRAIN_SEED = 1
_RELATIONS = {
    "=": lambda a, b: a == b,
    "#": lambda a, b: a != b,
    "&": lambda a, b: a and b,
    "|": lambda a, b: a or b,
}


@dataclass(frozen=True)
class Knights:
    """The task. `problems` are at most used to train; there are fewer than 1,500."""

    problems: int = 20_000
    wrong_reward: float = 0.0

    name = "knights"
    characters = "ABC01" + "".join(_RELATIONS) + ":,?"

    def __post_init__(self) -> None:
        if self.problems < 1:
            raise UserError(f"task.problems={self.problems} must be at least 1")

    @property
    def grader(self) -> Grader:
        """Grades by the rule of the module's docstring."""
        return ExactGrader(Knights.final_answer, self.wrong_reward)

    @staticmethod
    def final_answer(problem: Problem, response: str) -> str | None:
        """What stands behind the last `=` of a well-formed response."""
        roles = f"[01]{{{len(problem.answer)}}}"
        match = re.fullmatch(f"(?:{roles}:{roles},)*{roles}:{roles}=({roles})", response)
        return match[1] if match else None

    @cached_property
    def train(self) -> Sequence[Problem]:
        """At most `problems` training problems, in a random order."""
        return _side(held_out=False)[: self.problems]

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        """All held-out problems, in a random order."""
        return _side(held_out=True)

    def to_demonstrate(self, seed: int) -> Iterator[Problem]:
        """Endless training problems."""
        rng = random.Random(seed)
        while True:
            yield rng.choice(_side(held_out=False))

    def demonstration(self, problem: Problem, rng: random.Random, slip_rate: float = 0.0) -> str:
        """Tries assignments that agree with A's claim; each digit but those of a try is the other one at this rate.

        An assignment is taken where the claims as written, slips and all, agree with it, or after the last.
        """
        claims, answer = str(problem.prompt).removesuffix("?").split(","), _read(problem.answer)
        likely = [roles for roles in _assignments(len(claims)) if worth(claims[0], roles) == roles[0]]
        tries = rng.sample([roles for roles in likely if roles != answer], min(MAX_TRIES, len(likely)) - 1)
        tries.insert(rng.randrange(len(tries) + 1), answer)
        written = []
        for roles in tries:
            values = _slip([worth(claim, roles) for claim in claims], rng, slip_rate)
            written.append(f"{_text(roles)}:{_text(values)}")
            if values == roles:
                break
        return f"{','.join(written)}={_text(_slip(roles, rng, slip_rate))}"


def worth(claim: str, roles: Roles) -> int:
    """Whether a claim such as `A:B0` or `C:A&B` is true under an assignment."""
    statement = claim.partition(":")[2]
    first, last = roles["ABC".index(statement[0])], statement[-1]
    return (
        int(first == int(last))
        if len(statement) == 2
        else int(_RELATIONS[statement[1]](first, roles["ABC".index(last)]))
    )


def solutions(prompt: str) -> list[str]:
    """Every assignment under which all knights say the truth and all knaves do not."""
    claims = prompt.removesuffix("?").split(",")
    return [
        _text(roles) for roles in _assignments(len(claims)) if tuple(worth(claim, roles) for claim in claims) == roles
    ]


@cache
def _side(held_out: bool) -> tuple[Problem, ...]:
    prompts = [
        f"{','.join(claims)}?" for count in PEOPLE for claims in product(*map(_claims, range(count), [count] * count))
    ]
    problems = [
        Problem(prompt.removesuffix("?"), prompt, solved[0])
        for prompt in prompts
        if is_held_out(prompt) == held_out and len(solved := solutions(prompt)) == 1
    ]
    random.Random(_TRAIN_SEED).shuffle(problems)
    return tuple(problems)


def _claims(speaker: int, count: int) -> list[str]:
    """Everything that one of `count` people can claim. No claim is about the speaker alone."""
    people = "ABC"[:count]
    roles = [person + role for person in people if person != people[speaker] for role in "01"]
    relations = [a + relation + b for a, b in combinations(people, 2) for relation in _RELATIONS]
    return [f"{people[speaker]}:{statement}" for statement in roles + relations]


def _assignments(count: int) -> list[Roles]:
    return list(product((0, 1), repeat=count))


def _text(roles: Roles) -> str:
    return "".join(map(str, roles))


def _read(roles: str) -> Roles:
    return tuple(map(int, roles))


def _slip(roles: Sequence[int], rng: random.Random, rate: float) -> Roles:
    return tuple(1 - role if rng.random() < rate else role for role in roles)
