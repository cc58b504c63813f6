"""What may be wrong with a file, by accident or on purpose: bits, pieces of text, and values where others were."""

import json
import struct
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

SCRIPT = "alert(document.domain)"
"""What no page may have in an element of its own."""
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 7, 0.5, -0.0, 1e308, -1e308, 1e-320, 2**31, 2**63, -(2**63), 2**64, 10**30),
    *(float("nan"), float("inf"), float("-inf"), "", " ", "x", "0", "nan", "true", "null", [], {}, [[]]),
    *([None], {"": 0}),
    *({"a": {"b": [1, {"c": None}]}}, ["x", 1], [1, 2, 3, 4, 5, 6, 7], "\x1b[31mred\x07", "\u202eturned", "\ud800"),
    *("=HYPERLINK(1)", "../../outside", "/etc/passwd", "theirs:reward", "builtins:exec", "subprocess:Popen", "\x00"),
    *("${oc.env:HOME}", "{{ cycler }}", "%s%n", "<script>", "grpo+theirs:bonus", "stapo", "grpo-", "9" * 400, "\n\n"),
    *("${oc.decode:'subprocess:Popen'}", "${instruction}", [f'x"><script>{SCRIPT}</script>'], ["a\\q"]),
    *("9" * 5000, "a" * 20_000, "(" * 3000, "é" * 300, "1e999", "1/0", "-1", "2026-01-01", "0x1F", "1_000", "~"),
)
"""Values that are of the wrong kind, too large, too long, or mean something to somebody else."""
SNIPPETS = (
    *(b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\r\n", b"\n", b"\t", b" ", b'"', b"'", b"{", b"}", b"[", b"]"),
    *(b":", b","),
    *(b"\x1b[2J", "\u202e".encode(), b"- ", b"#", b"&a ", b"*a", b"<<: *a\n", b"!!python/object/apply:os.system [id]"),
    *(b"!!binary x", b"!!set {a}", b"? ", b"|\n", b"---\n", b"...\n", b"%YAML 9.9\n", b"${x}", b"NaN"),
    *(b"-Infinity", b"null"),
    *(b"1" * 5000, b"[" * 3000, b'{"a":' * 3000, b"(" * 500, b"e999", b"0x", b"\\u0000", b"\\ud800", b"PAR1"),
    *(b"=", b"+"),
)


def bytes_changed(content: bytes, random: Random) -> bytes:
    """One to four changes at any place: bits, pieces that are lost, doubled, put elsewhere, or somebody else's."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        random.choice(_BYTES)(changed, random)
    return bytes(changed)


def _flip(content: bytearray, random: Random) -> None:
    for _ in range(random.choice((1, 1, 8))):
        if content:
            content[_place(content, random)] ^= 1 << random.randrange(8)


def _cut(content: bytearray, random: Random) -> None:
    del content[_place(content, random) :]


def _lose(content: bytearray, random: Random) -> None:
    start, end = _piece(content, random)
    del content[start:end]


def _double(content: bytearray, random: Random) -> None:
    start, end = _piece(content, random)
    content[start:start] = content[start:end] * random.choice((1, 1, 3, 50))


def _move(content: bytearray, random: Random) -> None:
    start, end = _piece(content, random)
    piece = content[start:end]
    del content[start:end]
    place = _place(content, random)
    content[place:place] = piece


def _insert(content: bytearray, random: Random) -> None:
    place = _place(content, random)
    content[place:place] = random.choice(SNIPPETS)


def _garble(content: bytearray, random: Random) -> None:
    place = _place(content, random)
    content[place : place + 8] = random.randbytes(8)


_BYTES: tuple[Callable[[bytearray, Random], None], ...] = (
    *(_flip, _cut, _lose, _double, _move, _insert, _insert, _garble),
)


def _place(content: bytearray, random: Random) -> int:
    return random.randrange(len(content)) if content else 0


def _piece(content: bytearray, random: Random) -> tuple[int, int]:
    start = _place(content, random)
    return start, start + random.choice((1, 2, 8, 40, 400))


def value_changed(value: Any, random: Random) -> Any:
    """A copy of plain data in which one to three places hold something else, hold nothing, or have another name."""
    changed = json.loads(json.dumps(value))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        changed = _changed(changed, random)
    return changed


def _changed(value: Any, random: Random) -> Any:
    places = list(_places(value))
    if not places:
        return deepcopy(random.choice(ODD))
    holder, key = random.choice(places)
    deed = random.random()
    if deed < 0.65:
        holder[key] = deepcopy(random.choice(ODD))
    elif deed < 0.8:
        del holder[key]
    elif deed < 0.9:
        other, there = random.choice(places)
        holder[key] = json.loads(json.dumps(other.get(there) if isinstance(other, dict) else holder[key]))
    elif isinstance(holder, dict):
        holder[random.choice(("x", "", "step", "__class__", "a.b", "../x", f"<script>{SCRIPT}</script>"))] = holder.pop(
            key
        )
    else:
        holder[key] = [holder[key]]
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Where plain data holds something: each container with the key or index."""
    found, queue = [], [value]
    for holder in queue:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        found += [(holder, key) for key in keys]
        queue += [holder[key] for key in keys if isinstance(holder[key], dict | list)]
    return found


def deep(random: Random) -> bytes:
    """JSON, which is YAML too, that is nested deep."""
    depth, opening = random.choice((200, 2000, 20_000, 100_000)), random.choice(("[", '{"a":'))
    closing = {"[": "]", '{"a":': "}"}[opening]
    return f"{opening * depth}1{closing * random.choice((depth, 0))}".encode()


def json_changed(content: bytes, random: Random) -> bytes:
    """A JSON file: its values or its bytes."""
    deed = random.random()
    if deed < 0.05:
        return deep(random)
    if deed < 0.75:
        return _dumped(value_changed(json.loads(content), random))
    return bytes_changed(content, random)


def lines_changed(content: bytes, random: Random) -> bytes:
    """JSON lines: one of them, their order, or bytes."""
    lines = content.splitlines()
    deed, place = random.random(), random.randrange(len(lines))
    if deed < 0.65:
        lines[place] = _dumped(value_changed(json.loads(lines[place]), random))
    elif deed < 0.7:
        lines[place] = deep(random)
    elif deed < 0.75:
        lines[place] = _dumped(random.choice(ODD))
    elif deed < 0.8:
        random.shuffle(lines)
    elif deed < 0.85:
        lines = [*lines, *lines[: random.randrange(1, 4)]] if random.random() < 0.5 else lines[: len(lines) // 2]
    else:
        return bytes_changed(content, random)
    return b"\n".join(lines) + random.choice((b"\n", b"\n", b"\n", b""))


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def safetensors_changed(content: bytes, random: Random) -> bytes:
    """A file of tensors: the length of its header, what the header says, or bytes."""
    size = struct.unpack("<Q", content[:8])[0]
    header, data = content[8 : 8 + size], content[8 + size :]
    deed = random.random()
    if deed < 0.15:
        return struct.pack("<Q", random.choice((0, 1, size - 1, size + 1, 2**31, 2**63, 2**64 - 1))) + header + data
    if deed < 0.75:
        header = json_changed(header, random)
        return struct.pack("<Q", len(header)) + header + data
    if deed < 0.85:
        return content[:8] + header + data[: random.randrange(len(data))]
    return bytes_changed(content, random)


_TEMPLATES: tuple[str, ...] = (
    "{% for a in range(10**9) %}{% endfor %}",
    "{{ 'a' * 10**10 }}",
    "{{ 2 ** 10 ** 9 }}",
    "{{ ''.__class__.__mro__ }}",
    "{% include '/etc/passwd' %}",
    "{% import 'theirs' as x %}",
    "{{ raise_exception('\x1b[31m\n\u202e') }}",
    "{{ x.y }}",
    "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "{{ messages[9] }}",
    "{{ 1 / 0 }}",
    "{{ '\ud800' }}",
    "{{ cycler.__init__.__globals__.os.system('touch marker') }}",
    "{% generation %}{% endgeneration %}",
    "{{ self }}",
    "{{ messages | tojson(indent=99999999) }}",
    "{{ 'x'.format_map(messages) }}",
    "{% set messages = 1 %}",
    "\x00",
    "{{",
    "{{ lipsum(9999) }}",
    "{{ namespace(a=1).a.b }}",
    "{{ strftime_now('%' * 9999) }}",
    "{% break %}",
    "{% do 1 %}",
    "{{ range(10**9) | list }}",
    "{{ 'a' * 10**7 | wordwrap(1) }}",
    "{{ eos_token * 10**6 }}",
    "{{ '%s' % messages }}",
    "{% set n = namespace(a=[], b=[]) %}{% for i in range(25) %}{% set n.a, n.b = [n.a, n.a], [n.b, n.b] %}{% endfor %}"
    "{{ n.a == n.b }}",
)
"""What a template may do that it should not, or cannot."""


def template_changed(content: bytes, random: Random) -> bytes:
    """A chat template: its bytes, or something that it does besides, or instead."""
    if random.random() < 0.3:
        return bytes_changed(content, random)
    place = random.choice((0, len(content) // 2, len(content)))
    deed = random.choice(_TEMPLATES).encode(errors="surrogatepass")
    return deed if random.random() < 0.1 else content[:place] + deed + content[place:]
