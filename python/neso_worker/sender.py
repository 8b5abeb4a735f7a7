"""InferenceResponseSender: responses from any thread, in default mode and decoupled."""

from __future__ import annotations

from typing import Optional

from neso_runtime.encode import ResponseFrame
from neso_runtime.errors import TritonError, TritonModelException
from neso_runtime.frames import FINAL
from neso_runtime.response import InferenceResponse

from . import eventloop
from .batch import Answer

COMPLETE_FINAL = 1
_FORGOTTEN = "The model dropped the response sender of the request without a final response."


class InferenceResponseSender:
    """Sends the responses to one request. The final flag must come once, also for cancelled requests."""

    __slots__ = ("__weakref__", "_answer")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def send(self, response: Optional[InferenceResponse] = None, flags: int = 0) -> None:
        """Sends a response, a final mark, or both."""
        answer = self._answer
        if flags not in (0, COMPLETE_FINAL):
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if response is None:
            if flags == 0:
                raise TritonModelException(
                    "Inference Response object must be provided when the response flags is set to zero."
                )
        elif not isinstance(response, InferenceResponse):
            raise TypeError(f"response must be an InferenceResponse, found type '{type(response)}'")
        if response is not None and answer.window is not None:
            answer.window.wait(eventloop.here())
        with answer.lock:
            self._check(response, flags)
            batch = answer.batch
            frame = ResponseFrame(batch.tables, batch.number)
            final = flags == COMPLETE_FINAL
            if response is None:
                frame.add_final(answer.handle)
            else:
                frame.add(answer.handle, response, answer.wanted, FINAL if final else 0)
                answer.sent += 1
                if answer.window is not None:
                    answer.window.spent += frame.costs()[0]
            response = None
            if final:
                answer.closed = True
                batch.answered(answer, frame)
            else:
                batch.tables.link.writer.send(frame.pack())

    def _check(self, response: Optional[InferenceResponse], flags: int) -> None:
        answer = self._answer
        if not answer.batch.tables.decoupled:
            if response is not None and answer.sent:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send more than one response."
                )
            if response is None and flags == COMPLETE_FINAL and not answer.sent:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send complete final before sending a response."
                )
        if answer.closed:
            raise TritonModelException("Unable to send response. Response sender has been closed.")

    async def send_async(self, response: Optional[InferenceResponse] = None, flags: int = 0) -> None:
        """Like send, for coroutines: while the client does not keep up, others go on."""
        window = self._answer.window
        if response is not None and window is not None:
            await window.room()
        self.send(response, flags)

    def is_cancelled(self) -> bool:
        """Whether the client gave the request up."""
        return self._answer.batch.owed.is_cancelled(self._answer.handle)

    def __del__(self) -> None:
        answer = getattr(self, "_answer", None)
        if answer is not None and not answer.closed:
            # Nobody else can answer; without this the client would wait for ever.
            answer.closed = True
            frame = ResponseFrame(answer.batch.tables, answer.batch.number)
            if answer.sent:
                frame.add_final(answer.handle)
            else:
                error = InferenceResponse(error=TritonError(_FORGOTTEN))
                frame.add(answer.handle, error, None, FINAL)
            answer.batch.answered(answer, frame, collecting=True)
