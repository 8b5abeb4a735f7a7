"""Where workers of another user are not kept apart from each other, the server says so."""

from __future__ import annotations

import ctypes
import platform
import struct
import subprocess

import pytest
from nobody import needs_root
from server import BINARY, Server

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LANDLOCK_CREATE_RULESET = 444
ENOSYS = 38
WORD = "are not kept apart"

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"), reason="needs seccomp of Linux"
)


def without_landlock():
    """Has this process, and what it starts, see a kernel that does not know Landlock."""
    filters = b"".join(
        struct.pack("HBBI", *f)
        for f in (
            (0x20, 0, 0, 0),  # load the number of the system call
            (0x15, 0, 1, LANDLOCK_CREATE_RULESET),
            (0x06, 0, 0, 0x00050000 | ENOSYS),
            (0x06, 0, 0, 0x7FFF0000),  # all others are allowed
        )
    )
    buffer = ctypes.create_string_buffer(filters)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(filters) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)):
        if libc.prctl(*call):
            raise OSError(ctypes.get_errno(), "prctl")


def doctor(**options):
    return subprocess.run([BINARY, "doctor"], capture_output=True, text=True, timeout=180, **options).stdout


def has_landlock():
    return "(--worker-user) are kept apart" in doctor()


def test_the_doctor_says_it():
    here = doctor()
    assert "(--worker-user) are kept apart" in here or WORD in here
    there = " ".join(doctor(preexec_fn=without_landlock).split())
    assert f"note limits workers of another user (--worker-user) {WORD}: this kernel has no Landlock" in there
    assert "Linux 6.12 or later" in there


@needs_root
@pytest.mark.parametrize("user", ["nobody", ""])
@pytest.mark.parametrize("landlock", [True, False])
def test_the_log_says_it(tmp_path, user, landlock):
    if landlock and not has_landlock():
        pytest.skip("this kernel has none")
    options = [f"--worker-user={user}"] if user else []
    prepare = None if landlock else without_landlock
    (tmp_path / "models").mkdir()
    with Server(tmp_path / "models", *options, prepare=prepare) as s:
        assert s.log().count(f"workers of user 'nobody' (--worker-user) {WORD}") == (bool(user) and not landlock)
