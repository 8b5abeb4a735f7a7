"""Batch shape: the inputs of a batch taken apart into arrays, and its outputs put into a frame.

Arrays of numbers are views: of the frame, read-only, or of shared memory, to which models may write: as it is where the
server says that nothing else reads it, else for themselves alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np

from .connection import Tables
from .datatypes import BF16, BYTES, DTYPES, object_array, pack_elements, unpack_elements
from .frames import (
    COUNT,
    ENDS_BATCH,
    ENTRIES,
    HEADER,
    INLINE,
    MAGIC,
    MAX_BODY,
    NAMED,
    OWN_BLOCK,
    PADDING,
    PAIR,
    RESULT_BATCH,
    U16,
    VERSION,
    ProtocolError,
)  # fmt: skip
from .leases import Lease

ndarray = np.ndarray
_BF16 = np.dtype(np.uint16)

# Flag of RESULT_BATCH: inputs of the batch are still referenced.
BATCH_HELD = 2
# An output as it stands in entries: index, datatype, shape, segment, offset or inline data, bytes, name.
Entry = tuple[int, int, tuple[int, ...], int, Any, int, bytes]


def tensors(
    tables: Tables, data: Any, base: int, end: int, pos: int, count: int, into: dict[str, Any], leases: list[Lease]
) -> int:
    """Adds count tensors, whose entries begin at pos, and returns where the entries end."""
    names = tables.input_names
    for _ in range(count):
        ndim = data[pos + 3]
        index, number, _, segment, offset, size, *shape = ENTRIES[ndim].unpack_from(data, pos)
        pos += 24 + 8 * ndim
        if index == NAMED:
            (length,) = U16.unpack_from(data, pos)
            name = str(data[pos + 2 : pos + 2 + length], "utf-8")
            pos += 2 + length
            pos += base - pos & 7
        else:
            name = names[index]
        if segment == INLINE:
            source, start = data, base + offset
            if start + size > end:
                raise ProtocolError(f"tensor entry: offset {offset}, {size} bytes, body of {end - base}")
        else:
            source, start = tables.segments.view(segment, offset, size), 0
            mine = False
            if not number & OWN_BLOCK and number != BYTES:  # something else reads it too
                source, mine = tables.segments.mine(segment, offset, size, (tables.instance, name))
            if not mine:
                leases.append(tables.leases.lease(source, segment, offset))
        if number & ~OWN_BLOCK == BYTES:
            into[name] = object_array(unpack_elements(source[start : start + size]), tuple(shape))
            continue
        number &= ~OWN_BLOCK
        if not 0 < number <= BF16:
            raise ProtocolError(f"tensor entry: unknown datatype {number} at offset {pos - base}")
        array: Any = ndarray(shape, DTYPES[number] or _BF16, source, start)
        if array.nbytes != size:
            raise ProtocolError(f"tensor entry: {size} bytes for shape {shape}")
        into[name] = array
    return pos


def decode_batch(tables: Tables, data: Any, start: int, end: int) -> tuple[int, dict[str, Any], list[Lease]]:
    """The rows, inputs and leases of an EXECUTE_BATCH body that lies at data[start:end]."""
    inputs: dict[str, Any] = {}
    leases: list[Lease] = []
    try:
        count, rows = PAIR.unpack_from(data, start)
        pos = start + 8 + 16 * count
        (total,) = COUNT.unpack_from(data, pos)
        pos += 4
        pos += start - pos & 7
        tensors(tables, data, start, end, pos, total, inputs, leases)
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"execute batch: {error}") from None
    return rows, inputs, leases


def make_entry(
    tables: Tables,
    index: int,
    number: int,
    array: np.ndarray[Any, Any],
    place: Optional[Callable[[Any], tuple[int, int]]] = None,
) -> Entry:
    """An output with its bytes, or where they lie when they are many: there place puts them, else the store."""
    shape = array.shape
    if number == BYTES:
        data: Any = pack_elements(array)
        length = len(data)
    else:
        kind = DTYPES[number]
        if kind is not None and array.dtype is not kind and array.dtype != kind:
            array = array.astype(kind)  # the other byte order
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array).reshape(shape)
        data = array
        length = array.nbytes
    if length > tables.inline_limit:
        segment, offset = (place or tables.store.place)(data)
        return index, number, shape, segment, offset, length, b""
    if number != BYTES:
        data = data.tobytes()
    return index, number, shape, INLINE, data, length, b""


def pack_batch(instance: int, number: int, entries: list[Entry], flags: int) -> bytes:
    """A RESULT_BATCH frame."""
    cursor = 8
    for entry in entries:
        cursor += 24 + 8 * len(entry[2])
    parts = [b"", PAIR.pack(len(entries), flags)]
    data: list[bytes] = []
    for index, kind, shape, segment, where, length, _ in entries:
        ndim = len(shape)
        if segment == INLINE:
            if cursor & 7:
                data.append(PADDING[cursor & 7])
                cursor += -cursor & 7
            parts.append(ENTRIES[ndim].pack(index, kind, ndim, INLINE, cursor, length, *shape))
            data.append(where)
            cursor += length
        else:
            parts.append(ENTRIES[ndim].pack(index, kind, ndim, segment, where, length, *shape))
    if cursor & 7:
        data.append(PADDING[cursor & 7])
        cursor += -cursor & 7
    if cursor > MAX_BODY:
        raise ValueError(f"the outputs have {cursor} bytes")
    parts[0] = HEADER.pack(MAGIC, VERSION, RESULT_BATCH, cursor, instance, 0, number)
    parts += data
    return b"".join(parts)


def send_batch(tables: Tables, number: int, entries: list[Entry], leases: list[Lease]) -> None:
    """Sends the outputs of a batch; leases are those of its inputs. ValueError: more than a frame may have."""
    writer = tables.link.writer
    if not leases:
        writer.send(pack_batch(tables.instance, number, entries, ENDS_BATCH))
        return
    with writer.lock:
        flags = ENDS_BATCH | BATCH_HELD if tables.leases.held(leases) else ENDS_BATCH
        writer.send_locked(pack_batch(tables.instance, number, entries, flags))


def fail_batch(tables: Tables, number: int, leases: list[Lease], done: bytes) -> None:
    """Sends the frame that ends a batch without outputs, and before it which inputs are still referenced."""
    writer = tables.link.writer
    with writer.lock:
        if leases and tables.leases.held(leases):
            writer.hold_locked(pack_batch(tables.instance, number, [], BATCH_HELD))
        writer.send_locked(done)
