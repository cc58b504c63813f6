"""The kernel's boundary around a process that grades: no writing, no network, no new process, no hand on another one.

Landlock denies every way of changing what lies in folders; a filter of system calls (seccomp) denies the rest. Neither
needs rights, and neither can be taken back. Reading stays allowed, and so do threads. The packages that wrap them are a
wrapper of Landlock without a release, one that needs a library of the system (pyseccomp), and one that cannot filter
the calls of the process that it runs in (sandlock): so this talks to the kernel itself.

Sources: Linux, `Documentation/userspace-api/landlock.rst` and `seccomp_filter.rst`; `include/uapi/linux/{landlock,
seccomp,filter,audit}.h`; the numbers of calls are those of `arch/x86/entry/syscalls/syscall_64.tbl` and
`include/uapi/asm-generic/unistd.h`.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterator
from functools import cache

_X86, _ARM = 0, 1
_MACHINES = {"x86_64": (_X86, 0xC000003E), "aarch64": (_ARM, 0xC00000B7)}
"""Machine -> its column below, and how the kernel names it to a filter."""

_DENIED = {
    # processes
    **{"fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281)},
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271)},
    **{"pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424)},
    **{"rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "tkill": (200, 130)},
    # connections, and what outlives a process
    **{"socket": (41, 198), "mq_open": (240, 180), "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186)},
    **{"io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427)},
    # what Landlock does not see of files: rights, owners, times, attributes; before its third version, their length
    **{"truncate": (76, 45)},
    **{"chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452)},
    **{"chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54)},
    **{"utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88)},
    **{"setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463)},
    **{"removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466)},
    # the machine, where a grader runs as root
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97)},
    **{"setns": (308, 268), "open_by_handle_at": (304, 265), "bpf": (321, 280), "perf_event_open": (298, 241)},
    **{"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "userfaultfd": (323, 282)},
    **{"init_module": (175, 105), "finit_module": (313, 273), "kexec_load": (246, 104), "reboot": (169, 142)},
    **{"sethostname": (170, 161), "settimeofday": (164, 170), "clock_settime": (227, 112), "swapon": (167, 224)},
}
"""Call -> its number by column; None where a machine has no such call."""
_CLONE, _CLONE3 = (56, 220), (435, 435)
_KILL, _TGKILL = (62, 129), (234, 131)
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT, _SECCOMP = (444, 444), (446, 446), (317, 277)

_WRITES = {1: 0b1_1111_1111_0010, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Version of Landlock -> the rights that it added: to write, remove and make files; to link; to cut; to use devices."""
_CLONE_THREAD = 0x00010000
_NO_NEW_PRIVILEGES, _FILTER, _VERSION, _ACTION_KNOWN = 38, 1, 1, 2
_ALLOW, _ERROR, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
_X32 = 0x40000000


@cache
def lacking() -> str:
    """What of the boundary this machine does not have, in words; empty if it has all."""
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        return f"{platform.system()} on {platform.machine()} has none that rlzoo knows"
    if _landlock_version() < 1:
        return "its kernel has no Landlock"
    known = ctypes.c_uint32(_ERROR)
    if _call(_SECCOMP, _ACTION_KNOWN, 0, ctypes.byref(known)) != 0:
        return "its kernel has no seccomp"
    return ""


def enter() -> None:
    """Puts this process inside, for good. Raises OSError if the kernel refuses."""
    if _libc().prctl(_NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0))) != 0:
        raise _error("prctl")
    version = _landlock_version()
    rights = struct.pack("=Q", sum(bits for since, bits in _WRITES.items() if since <= version))
    rules = _call(_LANDLOCK_CREATE, rights, len(rights), 0)
    if rules < 0 or _call(_LANDLOCK_RESTRICT, rules, 0) != 0:
        raise _error("Landlock")
    os.close(rules)
    column, machine = _MACHINES[platform.machine()]
    code = b"".join(_filter(column, machine, os.getpid()))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    if _call(_SECCOMP, _FILTER, 0, program) != 0:
        raise _error("seccomp")


def _filter(column: int, machine: int, process: int) -> Iterator[bytes]:
    """Instructions of the filter: each denied call is an error; signals may go to this process, clones be threads."""
    refused, allowed = _ERROR | errno.EPERM, _ALLOW
    yield from (_step(_LOAD, _MACHINE), _step(_EQUAL, machine, otherwise=0, then=1), _step(_RETURN, _KILL_PROCESS))
    yield _step(_LOAD, _NUMBER)
    if column == _X86:  # the calls of x32 have other numbers
        yield from (_step(_AT_LEAST, _X32, otherwise=1), _step(_RETURN, refused))
    for numbers in _DENIED.values():
        if numbers[column] is not None:
            yield from (_step(_EQUAL, numbers[column], otherwise=1), _step(_RETURN, refused))
    # Its flags lie in memory, where a filter does not look: without it, the C library takes the older call.
    yield from (_step(_EQUAL, _CLONE3[column], otherwise=1), _step(_RETURN, _ERROR | errno.ENOSYS))
    yield from (_step(_EQUAL, _CLONE[column], otherwise=4), _step(_LOAD, _FIRST_ARGUMENT))
    yield from (_step(_ANY_BIT, _CLONE_THREAD, otherwise=1), _step(_RETURN, allowed), _step(_RETURN, refused))
    for numbers in (_KILL, _TGKILL):
        yield from (_step(_EQUAL, numbers[column], otherwise=4), _step(_LOAD, _FIRST_ARGUMENT))
        yield from (_step(_EQUAL, process, otherwise=1), _step(_RETURN, allowed), _step(_RETURN, refused))
    yield _step(_RETURN, allowed)


def _step(code: int, value: int | None, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction, with how many are passed over where it compares."""
    return struct.pack("=HBBI", code, then, otherwise, value or 0)


def _landlock_version() -> int:
    return _call(_LANDLOCK_CREATE, None, 0, _VERSION)


def _call(numbers: tuple[int, int], *arguments: object) -> int:
    """A system call; -1 if it fails."""
    column, _ = _MACHINES[platform.machine()]
    typed = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result: int = _libc().syscall(ctypes.c_long(numbers[column]), *typed)
    return result


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
