"""What the system tells a process of its pages of memory."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os

import pytest


def told() -> bool:
    """Whether a process can learn which pages are its own. Where not, models are given copies of large tensors."""
    size = mmap.PAGESIZE
    with contextlib.suppress(OSError), mmap.mmap(-1, size) as page, open("/proc/self/pagemap", "rb") as pagemap:
        page[0] = 1
        held = ctypes.c_char.from_buffer(page)
        at = ctypes.addressof(held) // size * 8
        del held
        entry = os.pread(pagemap.fileno(), 8, at)
        return len(entry) == 8 and bool(entry[7] & 0x80)
    return False


needed = pytest.mark.skipif(
    not told(), reason="/proc/self/pagemap tells nothing: large inputs are copied here, not lent"
)
