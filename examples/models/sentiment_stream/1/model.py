"""Partial results: one response a sentence, with its sentiment and that of the text so far."""

import re

import numpy as np
import triton_python_backend_utils as pb_utils


def sentences(text):
    """The sentences of a text (bytes), none of them empty."""
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+", text.decode("utf-8", "replace")) if part.strip()]


def ask(texts):
    """Sentiment and confidence of each text, in one call of the ensemble."""
    rows = np.array([[text.encode()] for text in texts], np.object_)
    request = pb_utils.InferenceRequest(
        model_name="sentiment",
        inputs=[pb_utils.Tensor("TEXT", rows)],
        requested_output_names=["SENTIMENT", "CONFIDENCE"],
    )
    response = request.exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return [pb_utils.get_output_tensor_by_name(response, name).as_numpy() for name in ("SENTIMENT", "CONFIDENCE")]


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            try:
                self.answer(request, sender)
            except pb_utils.TritonModelException as error:
                # What was sent stays sent; the stream goes on with this error.
                sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def answer(self, request, sender):
        text = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()[0]
        read = ""
        for sentence in sentences(text):
            if request.is_cancelled():
                return  # the client is gone: nobody reads the rest
            read = f"{read} {sentence}".strip()
            sentiment, confidence = ask([sentence, read])
            sender.send(
                pb_utils.InferenceResponse(
                    output_tensors=[
                        pb_utils.Tensor("SENTENCE", np.array([sentence.encode()], np.object_)),
                        pb_utils.Tensor("SENTIMENT", sentiment[0]),
                        pb_utils.Tensor("CONFIDENCE", confidence[0]),
                        pb_utils.Tensor("SO_FAR", sentiment[1]),
                    ]
                )
            )
