"""Frames of the worker protocol: numbers, fixed layouts, the header's checks.

docs/internals/worker-protocol.md is the text; the golden frames in proto/worker/frames
hold this codec and the server's to it.
"""

from __future__ import annotations

import json
from struct import Struct
from typing import Any

# What HELLO says.
PROTOCOL = 1
MAGIC = 0x574E
VERSION = 1
HEADER_SIZE = 24
MAX_BODY = 1 << 30
INLINE = 0xFFFFFFFF
# Bytes up to which a tensor lies in its frame, where the server does not say.
DEFAULT_INLINE_LIMIT = 8192
# Where the numbers of a worker's own segments start.
FIRST_OUTPUT = 1 << 31
NAMED = 0xFFFF
NO_ERROR = 0xFF

(
    HELLO, LOAD, INIT, READY, FAILED, EXECUTE, EXECUTE_BATCH, RESPONSES, RESULT_BATCH, DONE, CANCEL, INFER,
    INFER_RESPONSES, SEGMENT, GROW, RELEASE, LOG, METRIC, CONTROL, BIND, UNBIND, UNLOAD, EXIT, FORK, FORKED, EXITED,
    CREDIT, DROP, DROPPED, DEVICES, NOT_BEGUN, FREE, TIMES, ACTIVITY, PINNED,
) = range(1, 36)  # fmt: skip
LAST_KIND = PINNED

# In the datatype of an input's entry: nothing else reads the block, so the model may write to it.
OWN_BLOCK = 0x80
# Flags of a request block.
SEQUENCE_START = 1
SEQUENCE_END = 2
ONLY_REQUESTED = 4
# Flags of a response block.
FINAL = 1
NO_RESPONSE = 2
INPUTS_HELD = 4
AGAIN = 8
# Flag of a RESPONSES or RESULT_BATCH frame.
ENDS_BATCH = 1

HEADER = Struct("<HBBIIIQ")
# Magic, version and kind read as one number: one comparison checks the first two.
HEADER_WORDS = Struct("<IIIIQ")
SIGNATURE = VERSION << 16 | MAGIC

PAIR = Struct("<II")
REQUEST = Struct("<QQQQIIHHHHII")
RESPONSE = Struct("<QIBBHII")
BATCH_REQUEST = Struct("<QI4x")
SEGMENT_BODY = Struct("<IIQ")
GROW_BODY = Struct("<Q")
# The same two on a GPU: then its UUID, and in SEGMENT the handle of the memory.
DEVICE_SEGMENT_BODY = Struct("<IIQ16s64s")
GROW_DEVICE = Struct("<Q16s")
COUNT = Struct("<I")
# A response counts 1 in its request's window, and 1 more for so many bytes.
CREDIT_BYTES = 4096
# Credit for the responses to a call is returned in steps of this.
CREDIT_STEP = 64
# In the head of INFER: the call is decoupled, and credit comes back.
DECOUPLED_WINDOW = 2
# Flags in the head of INFER: the worker sends nothing more before the answer; outputs may lie on a device.
ALONE = 1
DEVICE_OUTPUTS = 2
# How many UUIDs DEVICES may have.
MAX_DEVICES = 64
RELEASE_ENTRY = Struct("<IQ")
LOG_BODY = Struct("<BIHI")
PID_STATUS = Struct("<Ii")
U16 = Struct("<H")

# ENTRIES[n] is a tensor entry with its n dimensions. The receiver reads n from
# byte 3 of the entry, so that one unpack takes it all.
ENTRIES = tuple(Struct("<HBBIQQ%dq" % n) for n in range(256))

PADDING = (b"", b"\0" * 7, b"\0" * 6, b"\0" * 5, b"\0" * 4, b"\0" * 3, b"\0" * 2, b"\0")  # by length & 7


class ProtocolError(Exception):
    """The other side sent something that is not this protocol."""


def header_fault(data: Any, pos: int) -> ProtocolError:
    """Says which field of the header at pos is wrong."""
    magic, version, kind, length, _, reserved, _ = HEADER.unpack_from(data, pos)
    if magic != MAGIC:
        return ProtocolError(f"frame: magic 0x{magic:04X} at offset 0, want 0x{MAGIC:04X}")
    if version != VERSION:
        return ProtocolError(f"frame: version {version} at offset 2, want {VERSION}")
    if not 1 <= kind <= LAST_KIND:
        return ProtocolError(f"frame: unknown kind {kind} at offset 3")
    if length > MAX_BODY:
        return ProtocolError(f"frame: length {length} at offset 4 is above {MAX_BODY}")
    return ProtocolError(f"frame: reserved field {reserved} at offset 12, want 0")


def frame(kind: int, instance: int, number: int, *body: Any) -> bytes:
    """One whole frame; number is the correlation number."""
    length = 0
    for part in body:
        length += len(part)
    if length > MAX_BODY:
        raise ProtocolError(f"frame: length {length} at offset 4 is above {MAX_BODY}")
    return b"".join((HEADER.pack(MAGIC, VERSION, kind, length, instance, 0, number), *body))


def json_frame(kind: int, instance: int, number: int, value: Any) -> bytes:
    """A frame whose body is JSON."""
    return frame(kind, instance, number, json.dumps(value, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def json_body(data: Any, start: int, end: int) -> Any:
    """The JSON value of a body; ProtocolError when it is none."""
    try:
        return json.loads(bytes(data[start:end]))
    except ValueError as error:
        raise ProtocolError(f"frame: body is not JSON: {error}") from None


def done_frame(instance: int, batch: int, message: str = "", traceback: str = "") -> bytes:
    """DONE, with the error of the whole batch if there is one."""
    if not message:
        return frame(DONE, instance, batch)
    text = message.encode("utf-8", "replace")
    trace = traceback.encode("utf-8", "replace")
    return frame(DONE, instance, batch, PAIR.pack(len(text), len(trace)), text, trace)


def release_frame(blocks: list[tuple[int, int]]) -> bytes:
    """RELEASE of (segment, offset) blocks."""
    pack = RELEASE_ENTRY.pack
    return frame(RELEASE, 0, 0, COUNT.pack(len(blocks)), *[pack(segment, offset) for segment, offset in blocks])


def release_blocks(data: Any, start: int, end: int) -> list[tuple[int, int]]:
    """The (segment, offset) blocks of a RELEASE body."""
    if end - start < COUNT.size:
        raise ProtocolError(f"release: body of {end - start} bytes")
    (count,) = COUNT.unpack_from(data, start)
    if end - start != COUNT.size + count * RELEASE_ENTRY.size:
        raise ProtocolError(f"release: {count} blocks in {end - start} bytes")
    return list(RELEASE_ENTRY.iter_unpack(data[start + COUNT.size : end]))
