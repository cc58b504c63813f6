"""Settings of other libraries from what their users have: YAML, JSON, TOML, a shell script, or lines of key=value.

A shell script is read and not run. Variables, their defaults, arrays and sums of whole numbers are filled in; what a
condition or a command decides is unknown, and an error where a setting of the objective depends on it.
"""

import ast
import operator
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from rlzoo.config.reading import check_yaml
from rlzoo.errors import UserError, one_line

_SETTING = re.compile(r"(?:\+\+?|--)?([A-Za-z_][\w.\-]*)=(.*)", re.DOTALL)
_ASSIGNED = re.compile(r"(?:export\s+|declare\s+(?:-\w+\s+)?|local\s+|readonly\s+)?([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:(:?[-=])([^{}]*))?\}|([A-Za-z_]\w*))")
_ARITHMETIC = re.compile(r"\$\(\(([^()]*(?:\([^()]*\)[^()]*)*)\)\)")
_ARRAY = re.compile(r"\$\{([A-Za-z_]\w*)\[[@*]\]\}")
_LEFT = re.compile(r"\$[({\d@*#]|`")
"""What no filling in has taken away: a command, a parameter of the script."""
_COMMAND = re.compile(r"\$\((?!\()(?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*\)|`[^`\n]*`")
"""A command whose output is a value."""
_QUOTED = r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|\$\(\)|\$\(\([^\n]*?\)\)|\$\{[^}\n]*\}"""
_COMMENT = r"(?<!\S)#[^\n]*"
_TOKEN = re.compile(
    rf"""(?P<array>(?<![^\s;])[A-Za-z_]\w*\+?=\((?:{_QUOTED}|{_COMMENT}|[^()'"\\])*+\))|{_QUOTED}"""
    rf"|(?P<comment>{_COMMENT})|(?P<end>;;?&?|&&|\|\||\|(?!\s*[^\s()|]+\))|(?<![<>])&(?!>)|\n)"
    r"|(?<!<)<<-?\s*(?P<quote>['\"]?)(?P<heredoc>[A-Za-z_]\w*)(?P=quote)",
    re.DOTALL,
)
"""What holds no end of a command, the ends of commands, and the word that ends a text behind a command."""
_BARE = re.compile(rf"(?<!\S)\$(?:\{{(?P<braced>[A-Za-z_]\w*)\}}|(?P<bare>[A-Za-z_]\w*))(?!\S)|{_QUOTED}", re.DOTALL)
"""A variable that is a word without quotes, which bash parts into words; and what holds none."""
_UNQUOTED = re.compile(rf"\$(?:\{{(?P<braced>[A-Za-z_]\w*)\}}|(?P<bare>[A-Za-z_]\w*))|{_QUOTED}", re.DOTALL)
"""A variable without quotes, also within a word; and what holds none."""
_OPENED_ARRAY = re.compile(r"(?<![^\s;])[A-Za-z_]\w*\+?=\(")
_LEADING = re.compile(
    r"(?:(?P<opens>if|while|until|case\s+(?P<subject>.*?)\s+in|\{|(?:for|select)\s+(?P<variable>\w*).*)"
    r"|(?P<closes>fi|esac|done|\})|then|else|elif|do|!|time|function\s+[\w-]+(?:\s*\(\))?|[\w-]+\s*\(\)"
    r"|\(?(?P<pattern>[^\s()=|]+(?:\s*\|\s*[^\s()=|]+)*)\s*\))(?=\s|\{|$)\s*",
    re.DOTALL,
)
"""What may stand before a command: words of a condition or a loop, the name of a function, a pattern of a case."""
_EXPORTS = ("export", "declare", "local", "readonly")
_SETS_NAMES = ("read", "unset", "let")
"""Commands that set the variables that they name."""
_NO_TRAINING = ("echo", "set", "[", "[[", "test", *_EXPORTS, *_SETS_NAMES)
"""Commands whose arguments are settings of nothing."""


def _quotient(dividend: int, divisor: int) -> int:
    """Rounds towards zero, as bash does."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: lambda dividend, divisor: dividend - divisor * _quotient(dividend, divisor),
}


def settings_in(path: str) -> dict[str, Any]:
    """Reads the settings of another library in a file. Raises UserError."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix in (".sh", ".bash"):
            return _of_arguments(_arguments(text), path)
        if all(_SETTING.fullmatch(line) for line in _lines(text)):
            return _of_arguments(_lines(text), path)
        if file.suffix != ".toml":
            check_yaml(text, path)
        settings = tomllib.loads(text) if file.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"cannot read {path}: {one_line(error)}") from None
    except (yaml.YAMLError, tomllib.TOMLDecodeError, ValueError) as error:
        raise UserError(f"{path} is neither YAML, JSON nor TOML: {one_line(error)}") from None
    if isinstance(settings, list) and settings and all(isinstance(it, str) and "=" in it for it in settings):
        return _of_arguments(settings, path)  # Hydra's overrides.yaml
    if not isinstance(settings, dict) or not all(isinstance(key, str) for key in settings):
        raise UserError(f"{path} holds no settings; name: value, one a line, is what is read")
    return settings


def program_in(path: str) -> str:
    """The module that a shell script runs last with `-m`; empty where it runs none."""
    if Path(path).suffix not in (".sh", ".bash"):
        return ""
    modules = re.findall(r"(?<!\S)-m\s+([A-Za-z_][\w.]*)", Path(path).read_text(encoding="utf-8"))
    return next((module for module in reversed(modules) if module not in ("pip", "torch.distributed.run")), "")


def _lines(text: str) -> list[str]:
    stripped = (line.strip().removesuffix("\\").strip() for line in text.splitlines())
    return [line for line in stripped if line and not line.startswith("#")]


def _of_arguments(arguments: Sequence[str], path: str) -> dict[str, Any]:
    """Reads `key=value`, `--key=value` and `--key value`; of a key that is given twice the last counts, as in Hydra."""
    settings: dict[str, Any] = {}
    key = ""
    for argument in arguments:
        found = _SETTING.fullmatch(argument)
        if found:
            settings[found[1].replace("-", "_") if argument.startswith("--") else found[1]] = _value(found[2])
        elif key and not argument.startswith("--"):
            settings[key] = _value(argument)
        key = argument[2:].replace("-", "_") if argument.startswith("--") and not found else ""
        if key:
            settings[key] = True
    if not settings:
        raise UserError(f"{path} holds no settings; key=value, or --key value, behind a command is what is read")
    return settings


def _value(text: str) -> Any:
    if UNKNOWN in text:
        return text
    try:
        return yaml.safe_load(text) if text else None
    except yaml.YAMLError:
        return text


LONGEST_VALUE = 2**13
"""Characters of a variable; a longer one is unknown. A few lines of `A=$A$A` would fill the memory."""
LONGEST_COMMAND, MOST_LINES = 2**15, 200
"""Characters and lines of a command. In a longer one a quote never closes, or it is no command that trains."""
UNKNOWN = "\ufdd2"
"""Stands in a value for what the script alone does not say; Unicode has no such character."""


@dataclass
class _Script:
    """The variables of a script, as far as its text says them."""

    values: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, list[str]] = field(default_factory=dict)
    falls_through: bool = False
    """Whether commands of a case may go on to those of the next pattern."""

    def note_assignments(self, line: str, is_certain: bool) -> bool:
        """Takes over what a line sets; whether it does nothing else."""
        array = _ASSIGNED.fullmatch(line)
        if array and array[3].startswith("("):
            self.extend(array[1], array[3].strip()[1:].rpartition(")")[0], bool(array[2]), is_certain)
            return True
        words = shlex.split(line, comments=True)
        if words[0] in _EXPORTS:
            words = [word for word in words[1:] if "=" in word and not word.startswith("-")]
        assigned = [_ASSIGNED.fullmatch(word) for word in words]
        if all(assigned):
            for found in filter(None, assigned):
                self._assign(found[1], found[3], bool(found[2]), is_certain)
            return True
        words = words[assigned.index(None) :]
        if words[0] in _SETS_NAMES or words[0].startswith("(("):
            self.values.update(dict.fromkeys(re.findall(r"[A-Za-z_]\w*", " ".join(words)), UNKNOWN))
        return False

    def _assign(self, name: str, text: str, adds: bool, is_certain: bool) -> None:
        """Sets a variable; one that a condition sets otherwise than before is unknown from there on."""
        known, value = self.values.get(name), self.filled(text)
        value = known + value if adds and known is not None else value
        if not is_certain and known != value:
            value = " ".join(_undecided(f"{known or ''} {value}".split()))
        self.values[name] = value if len(value) <= LONGEST_VALUE else UNKNOWN

    def extend(self, name: str, inner: str, adds: bool, is_certain: bool) -> None:
        """Sets an array or adds to it; what a condition adds is unknown."""
        words = list(self.words(inner))
        words = words if is_certain else _undecided(words)
        self.arrays[name] = [*(self.arrays.get(name, []) if adds or not is_certain else []), *words]

    def filled(self, text: str) -> str:
        """Fills in variables and arithmetic."""
        for _ in range(8):
            before = text
            text = _VARIABLE.sub(self._variable, text)
            text = _ARITHMETIC.sub(lambda found: _calculated(found[1]), text)
            if text == before:
                break
        return re.sub(r"\S+", lambda word: _undecided([word[0]])[0] if _LEFT.search(word[0]) else word[0], text)

    def _variable(self, found: re.Match[str]) -> str:
        name, default = found[1] or found[4], found[3]
        if name in self.values:
            return self.values[name]
        return default if default is not None else UNKNOWN

    def words(self, line: str) -> Iterator[str]:
        """Parts a line into words, arrays and variables filled in. Raises ValueError for quotes that never close."""
        line = _UNQUOTED.sub(self._in_one_word, _BARE.sub(_as_array, line))
        for word in shlex.split(line, comments=True):
            array = _ARRAY.fullmatch(word)
            if array and array[1] in self.values.keys() - self.arrays.keys():
                yield from self.values[array[1]].split()
            elif array and (array[1] in self.arrays or "@" in word):
                yield from self.arrays.get(array[1], ())
            else:
                yield UNKNOWN if array else self.filled(word)

    def _in_one_word(self, found: re.Match[str]) -> str:
        """A variable within a word; unknown if bash would part the word at its spaces."""
        value = self.values.get(found["braced"] or found["bare"] or "", "")
        return "$()" if len(value.split()) > 1 else found[0]


def _as_array(found: re.Match[str]) -> str:
    """A variable without quotes as an array, which is several words, too."""
    name = found["braced"] or found["bare"]
    return f"${{{name}[*]}}" if name else found[0]


def _undecided(words: Sequence[str]) -> list[str]:
    """The words with every value unknown."""
    names = [word.partition("=") for word in words]
    return [f"{name}={UNKNOWN}" if sign and not _LEFT.search(name) else UNKNOWN for name, sign, _ in names]


def _calculated(text: str) -> str:
    """The value of a sum of whole numbers; UNKNOWN for anything else."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError

    try:
        return str(value(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError):
        return UNKNOWN


@dataclass
class _Block:
    """A condition or a loop; of a case whose subject is known, whether the commands at hand are run."""

    subject: str = UNKNOWN
    was_run: bool = False
    is_run: bool = True

    def choose(self, patterns: str) -> None:
        """Begins the commands behind these patterns; bash runs those of the first pattern that matches."""
        if any(sign in patterns for sign in "$[\\"):
            self.subject = UNKNOWN
        if self.subject != UNKNOWN:
            self.is_run = not self.was_run and any(
                fnmatchcase(self.subject, pattern.strip(" \"'")) for pattern in patterns.split("|")
            )
            self.was_run |= self.is_run


def _enter(blocks: list[_Block], leading: re.Match[str], script: _Script) -> None:
    """Takes over the beginning or the end of a block, and the patterns of a case."""
    if leading["opens"]:
        subject = script.filled(leading["subject"].strip("\"'")) if leading["subject"] else UNKNOWN
        blocks.append(_Block(UNKNOWN if UNKNOWN in subject or script.falls_through else subject))
    elif leading["closes"] and blocks:
        blocks.pop()
    elif leading["pattern"] and blocks:
        blocks[-1].choose(leading["pattern"])
    if leading["variable"]:
        script.values[leading["variable"]] = UNKNOWN


def _arguments(text: str) -> list[str]:
    """The settings that a script gives its command; UNKNOWN where it has several commands that differ in one."""
    script, blocks, found = _Script(falls_through=";&" in text), list[_Block](), list[list[str]]()
    for line, is_conditional in _commands(text):
        while leading := _LEADING.match(line):
            _enter(blocks, leading, script)
            line = line[leading.end() :]
        is_subshell = re.match(r"\((?!\()", line) is not None
        line = line[is_subshell:].lstrip() if all(block.is_run for block in blocks) else ""
        is_certain = not (any(block.subject == UNKNOWN for block in blocks) or is_conditional or is_subshell)
        if line and not script.note_assignments(line, is_certain):
            found.append(_settings_of(list(script.words(line))))
    dotted = [words for words in found if any("." in word.partition("=")[0] for word in words if "=" in word)]
    first_command, *others = dotted or [words for words in found if words] or [[]]
    if all(words == first_command for words in others):
        return first_command
    tables = [dict(word.partition("=")[::2] for word in words) for words in (first_command, *others)]
    names = dict.fromkeys(name for table in tables for name in table)
    alike = {name: {table.get(name) for table in tables} for name in names}
    return [f"{name}={tables[0][name] if len(alike[name]) == 1 else UNKNOWN}" for name in names]


def _settings_of(words: list[str]) -> list[str]:
    """What of a command's words are settings: those behind the program's name."""
    while words and _ASSIGNED.fullmatch(words[0]):
        words = words[1:]
    if not words or words[0] in _NO_TRAINING:
        return []
    places = (place for place, word in enumerate(words) if place and (word.startswith("--") or "=" in word))
    return words[next(places, len(words)) :]


def _commands(text: str) -> Iterator[tuple[str, bool]]:
    """The commands of a script and whether one is behind && or ||. Raises UserError for a quote that never closes."""
    joined = re.sub(r"\\[ \t]*(?:\n|\Z)", " ", text)
    joined = _ARITHMETIC.sub(lambda found: "".join(found[0].split()), joined)
    joined = _COMMAND.sub("$()", joined)
    held, is_conditional = "", False
    lines = iter(joined.splitlines())
    for line in lines:
        held = f"{held}\n{line.strip()}" if held else line.strip()
        if len(held) > LONGEST_COMMAND or held.count("\n") > MOST_LINES:
            break
        if not _is_whole(held):
            continue
        parts = [part.lstrip() for part in _TOKEN.sub(_marked, held).split("\0")]
        for part, end in zip(parts[::2], [*parts[1::2], ""], strict=True):
            if part:
                yield part, is_conditional
            is_conditional = end in ("&&", "||") or (is_conditional and not part)
        for last in filter(None, (token["heredoc"] for token in _TOKEN.finditer(held))):
            next((text for text in lines if text.strip() == last), "")
        held = ""
    if held:
        begun = one_line(held.splitlines()[0][:80])
        raise UserError(f"a quote or an array never closes: {begun}. Close it, or leave that line out.")


def _marked(token: re.Match[str]) -> str:
    """A token with the end of a command between zeros, and without a comment."""
    if token["comment"] is not None:
        return ""
    return f"\0{token[0]}\0" if token["end"] else token[0]


def _is_whole(text: str) -> bool:
    """Whether every quote and array closes."""
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return not _OPENED_ARRAY.search(_TOKEN.sub(" ", text))
