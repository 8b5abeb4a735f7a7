"""Binds the process of an instance to processors and to the memory of a NUMA node, as its host policy says."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any, Optional

from neso_runtime.errors import TritonModelException

# The number of the system call set_mempolicy by machine, and its mode "only from these nodes".
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_BIND = 2
_WORD = 64


def place(policy: Optional[dict[str, Any]]) -> None:
    """Applies a policy: processors is a list of their numbers, node that of a NUMA node, either may be missing.

    It holds for all threads that there are and that come. Raises TritonModelException where the system refuses.
    """
    if not policy:
        return
    node, processors = policy.get("node"), policy.get("processors")
    if node is not None:
        _bind_memory(int(node))
    if processors is not None:
        try:
            for thread in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(thread), processors)
        except (OSError, ValueError, OverflowError, AttributeError) as e:
            raise TritonModelException(f"Unable to set NUMA thread affinity: {_reason(e)}") from None


def _bind_memory(node: int) -> None:
    call = _SET_MEMPOLICY.get(platform.machine())
    if call is None or not hasattr(os, "sched_setaffinity"):
        raise TritonModelException("Unable to set NUMA memory policy: not on this system")
    if not 0 <= node < 1024:  # as many as the kernel can have
        raise TritonModelException("Unable to set NUMA memory policy: Invalid argument")
    words = (ctypes.c_ulong * (node // _WORD + 1))()
    words[node // _WORD] = 1 << node % _WORD
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel takes one bit less than it is told.
    if libc.syscall(ctypes.c_long(call), ctypes.c_int(_BIND), words, ctypes.c_ulong(len(words) * _WORD + 1)) != 0:
        raise TritonModelException(f"Unable to set NUMA memory policy: {os.strerror(ctypes.get_errno())}")


def _reason(e: Exception) -> str:
    return e.strerror or str(e) if isinstance(e, OSError) else str(e)
