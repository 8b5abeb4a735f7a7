"""Requests in flight: what the library calls back, from threads of its own, and where responses go."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
import weakref
from typing import Any, Optional, Protocol

import numpy as np

from . import _library
from ._errors import InternalError, InvalidArgumentError, UnsupportedError
from ._handle import Callback
from ._memory import place
from ._request import InferenceRequest, discard, write
from ._response import InferenceResponse, read
from ._running import Addressed


class Inbox(Protocol):
    """Where the responses of a request are waited for."""

    #: The model that was asked.
    model: Addressed

    def put(self, response: InferenceResponse) -> None:
        """Takes a response. It is called by threads of the library, and must neither wait nor raise."""


class Flight:
    """One sending of a request. It is there until the server has released the request and sent the final response.

    Callbacks take no lock: the garbage collector may run one's code in the midst of another's.
    """

    def __init__(self, request: InferenceRequest, inbox: Inbox, keep: bool) -> None:
        """Sends the request. Its responses go to ``inbox``, and nowhere when that is gone; ``keep`` keeps it.

        Raises the library's errors, and those of the request's fields.
        """
        self._id = request.request_id or ""
        self._place = None if request.output_memory_type is None else place(request.output_memory_type)
        # An inbox leads to the server, which must be able to end when nobody waits for responses.
        self._inbox = weakref.ref(inbox)
        self._kept = inbox if keep else None
        pointer, self._inputs = write(request)
        self._pointer: Optional[int] = pointer
        key = next(_keys)
        _releasing[key] = _responding[key] = self
        try:
            _library.call("InferenceRequestSetReleaseCallback", pointer, _address(_release_callback), key)
            allocator, respond = _allocator(), _address(_response_callback)
            _library.call("InferenceRequestSetResponseCallback", pointer, allocator, None, respond, key)
            request.model._running.ask("ServerInferAsync", pointer, None)
        except BaseException:
            _releasing.pop(key, None)
            _responding.pop(key, None)
            self.released()
            raise

    def cancel(self) -> None:
        """Asks the server to end the request. Does nothing when it has ended."""
        pointer = self._pointer
        if pointer is not None:
            with contextlib.suppress(InvalidArgumentError):  # released just now
                _library.call("InferenceRequestCancel", pointer)

    def released(self) -> None:
        """The request is the program's again, and so is the memory of its inputs."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            discard(pointer)
        self._inputs.clear()

    def respond(self, pointer: Optional[int], final: bool) -> None:
        """Reads a response, None for one that only says that it is the final one, and puts it into the inbox."""
        inbox = self._inbox()
        if inbox is None:
            return
        made = InferenceResponse(inbox.model, self._id, final=final)
        try:
            if pointer:
                read(pointer, made, _given.get)
                if self._place is not None:
                    made.outputs = {name: tensor.to_device(self._place) for name, tensor in made.outputs.items()}
        except (InvalidArgumentError, UnsupportedError) as e:
            made.error = InvalidArgumentError(f"Memory type {self._place} not supported: {e}", made)
        except Exception as e:
            made.error = InternalError(f"Unexpected error in creating response object: {e}", made)
        inbox.put(made)
        if final:
            self._kept = None


_keys = itertools.count(1)
# The flights whose requests are the server's, and those whose final response has not come.
_releasing: dict[int, Flight] = {}
_responding: dict[int, Flight] = {}
# The memory of outputs that the library fills or whose response is there, by address.
_given: dict[Optional[int], np.ndarray[Any, Any]] = {}


def _on_release(_request: int, _flags: int, key: int) -> None:
    with Callback():
        flight = _releasing.pop(key, None)
        if flight is not None:
            flight.released()
        del flight


def _on_response(response: Optional[int], flags: int, key: int) -> None:
    with Callback():
        final = bool(flags & 1)
        flight = _responding.pop(key, None) if final else _responding.get(key)
        try:
            if flight is not None:
                flight.respond(response, final)
        finally:
            if response:
                _library.call("InferenceResponseDelete", response)
            del flight


def _on_allocate(
    _allocator: int,
    name: bytes,
    size: int,
    _kind: int,
    _device: int,
    _user: Any,
    to: Any,
    to_user: Any,
    kind: Any,
    at: Any,
) -> Optional[int]:
    try:
        memory: Any = np.empty(max(size, 1), np.uint8)
    except MemoryError:
        told = f"no memory for the {size} bytes of output '{name.decode(errors='replace')}'"
        error: Optional[int] = _library.value("ErrorNew", 1, told.encode())
        return error
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _given[address] = memory
    to[0], to_user[0], kind[0], at[0] = address, None, 0, 0
    return None


def _on_free(_allocator: int, address: Optional[int], _user: Any, _size: int, _kind: int, _device: int) -> None:
    _given.pop(address, None)


_pointer, _size, _int, _int64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64
_to_pointer, _to_int, _to_int64 = (ctypes.POINTER(kind) for kind in (ctypes.c_void_p, ctypes.c_int, ctypes.c_int64))
_event_type = ctypes.CFUNCTYPE(None, _pointer, ctypes.c_uint32, _pointer)
_allocate_type = ctypes.CFUNCTYPE(
    _pointer, _pointer, ctypes.c_char_p, _size, _int, _int64, _pointer, _to_pointer, _to_pointer, _to_int, _to_int64
)
_free_type = ctypes.CFUNCTYPE(_pointer, _pointer, _pointer, _pointer, _size, _int, _int64)
# What the library calls must stay as long as it does.
_release_callback, _response_callback = _event_type(_on_release), _event_type(_on_response)
_allocate_callback, _free_callback = _allocate_type(_on_allocate), _free_type(_on_free)


def _address(function: Any) -> Optional[int]:
    return ctypes.cast(function, ctypes.c_void_p).value


_made: list[int] = []
_lock = threading.Lock()


def _allocator() -> int:
    """The allocator of all responses, which lives as long as the library."""
    if not _made:
        with _lock:
            if not _made:
                made = ctypes.c_void_p()
                functions = _address(_allocate_callback), _address(_free_callback)
                _library.call("ResponseAllocatorNew", ctypes.byref(made), *functions, None)
                _made.append(made.value or 0)
    return _made[0]


def held() -> dict[str, int]:
    """What is held for requests and responses, counted; all zeros when none is in flight."""
    return {"releasing": len(_releasing), "responding": len(_responding), "given": len(_given)}
