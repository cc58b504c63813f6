"""The kernel's boundary around a process that grades: no writing, no network, no new process, no hand on another one.

Landlock denies every way of changing what lies in folders, and reading in `/proc`, where other processes show their
environment, memory maps and open files. A filter of system calls (seccomp) allows those that `system_calls.csv` marks
`yes`, some of them (`if`) with some arguments alone, and refuses all others, also those that future kernels add.
Neither needs rights, and neither can be taken back. Other files may be read, and threads may be started. The packages
that wrap them are a wrapper of Landlock without a release, one that needs a library of the system (pyseccomp), and one
that cannot filter the calls of the process that it runs in (sandlock): so this talks to the kernel itself.

Sources: Linux, `Documentation/userspace-api/landlock.rst` and `seccomp_filter.rst`; `include/uapi/linux/{landlock,
seccomp,filter,audit}.h`; the numbers of calls are those of `arch/x86/entry/syscalls/syscall_64.tbl` and
`include/uapi/asm-generic/unistd.h`.
"""

import csv
import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machine -> how the kernel names it to a filter; `system_calls.csv` has a column for each."""

_RIGHTS = {1: 0b1_1111_1111_1110, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Version of Landlock -> the rights that it added: to read, write, remove and make files; to link; to cut; to use
devices."""
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_BENEATH = 1
_CLONE_THREAD = 0x00010000
_DUPLICATE, _GET_FLAGS, _SET_FLAGS, _GET_STATUS, _DUPLICATE_AND_CLOSE = 0, 1, 2, 3, 1030
_END_WITH_PARENT, _NO_NEW_PRIVILEGES, _FILTER, _VERSION, _ACTION_KNOWN = 1, 38, 1, 1, 2
_ALLOW, _ERROR, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _ANY_BIT, _ABOVE, _RETURN = 0x20, 0x15, 0x45, 0x25, 0x06
_NUMBER, _MACHINE = 0, 4
_ANSWERS = {"clone3": errno.ENOSYS, "ioctl": errno.ENOTTY}
"""The error of a refused call where EPERM would not do: the C library then takes `clone`, whose flags a filter sees;
and a file is no terminal."""


@cache
def missing_kernel_features() -> str:
    """What of the boundary this machine does not have, in words; empty if it has all."""
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        return f"{platform.system()} on {platform.machine()} has none that rlzoo knows"
    try:
        _landlock_version()
        _call("seccomp", _ACTION_KNOWN, 0, struct.pack("=I", _ERROR))
    except OSError as error:
        return f"its kernel says {error.strerror}"
    return ""


def enter() -> None:
    """Puts this process inside, for good. Raises OSError if the kernel refuses."""
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _allow_only_reading()
    code = b"".join(_filter(platform.machine(), os.getpid()))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    _call("seccomp", _FILTER, 0, program)


def _allow_only_reading() -> None:
    """Denies all that Landlock knows but reading what lies in the folders of `/` other than `/proc`."""
    version = _landlock_version()
    rights = struct.pack("=Q", sum(bits for since, bits in _RIGHTS.items() if since <= version))
    rules = _call("landlock_create_ruleset", rights, len(rights), 0)
    readable = [entry for entry in os.scandir("/") if entry.name != "proc" and not entry.is_symlink()]
    for entry in readable:
        place = os.open(entry.path, os.O_PATH)
        allowed = struct.pack("=Qi", _READ_FILE | (_READ_FOLDER if entry.is_dir() else 0), place)
        _call("landlock_add_rule", rules, _BENEATH, allowed, 0)
        os.close(place)
    _call("landlock_restrict_self", rules, 0)
    os.close(rules)


def end_with_parent(signal: int) -> None:
    """Has the kernel send this process the signal when the one that it was forked from is gone, where it can."""
    if sys.platform.startswith("linux"):
        _libc().prctl(_END_WITH_PARENT, ctypes.c_ulong(signal))


@cache
def system_calls(machine: str) -> Mapping[str, tuple[int, str]]:
    """Call -> its number on a machine, and whether it is allowed: `yes`, `if` with some arguments alone, or ``."""
    text = Path(__file__).with_name("system_calls.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {row["call"]: (int(row[machine]), row["allowed"]) for row in rows if row[machine]}


def _filter(machine: str, process: int) -> Iterator[bytes]:
    """Instructions of the filter: each call that is not allowed is an error, and one that no table knows is not there.

    Signals may go to this process alone, new tasks be threads of it; limits of resources may be read, and files be
    described and duplicated, which neither sends signals nor waits for them.
    """
    calls, refused = system_calls(machine), _step(_RETURN, _ERROR | errno.EPERM)
    of_files = (_DUPLICATE, _GET_FLAGS, _SET_FLAGS, _GET_STATUS, _DUPLICATE_AND_CLOSE)
    conditions = {
        "clone": _matches(_argument(0), [_CLONE_THREAD], _ANY_BIT),
        "kill": _matches(_argument(0), [process]),
        "tgkill": _matches(_argument(0), [process]),
        "fcntl": _matches(_argument(1), of_files),
        "prlimit64": b"".join(_matches(word, [0]) for word in (_argument(0), _argument(2), _argument(2) + 4)),
    }
    yield from (_step(_LOAD, _MACHINE), _step(_EQUAL, _MACHINES[machine], otherwise=0, then=1))
    yield from (_step(_RETURN, _KILL_PROCESS), _step(_LOAD, _NUMBER))
    for call, (number, allowed) in calls.items():
        if allowed == "yes":
            yield from (_step(_EQUAL, number, otherwise=1), _step(_RETURN, _ALLOW))
        if allowed == "if":
            yield _step(_EQUAL, number, otherwise=len(conditions[call]) // 8 + 1)
            yield from (conditions[call], _step(_RETURN, _ALLOW))
    for call, answer in _ANSWERS.items():
        yield from (_step(_EQUAL, calls[call][0], otherwise=1), _step(_RETURN, _ERROR | answer))
    yield _step(_ABOVE, max(number for number, _ in calls.values()), otherwise=1)  # those of x32 among them
    yield from (_step(_RETURN, _ERROR | errno.ENOSYS), refused)


def _matches(word: int, values: "list[int] | tuple[int, ...]", comparison: int = _EQUAL) -> bytes:
    """Instructions that refuse a call unless the word is one of the values, or has such a bit."""
    compared = [_step(comparison, value, then=len(values) - place) for place, value in enumerate(values)]
    return b"".join([_step(_LOAD, word), *compared, _step(_RETURN, _ERROR | errno.EPERM)])


def _argument(place: int) -> int:
    """Where the lower half of an argument lies."""
    return 16 + 8 * place


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction, with how many are passed over where it compares."""
    return struct.pack("=HBBI", code, then, otherwise, value)


def _landlock_version() -> int:
    return _call("landlock_create_ruleset", None, 0, _VERSION)


def _call(name: str, *arguments: object) -> int:
    """A system call. Raises OSError if it fails."""
    typed = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result = int(_libc().syscall(ctypes.c_long(system_calls(platform.machine())[name][0]), *typed))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
