"""The ensemble `sentiment` as code: each request calls three models, one after the other."""

import triton_python_backend_utils as pb_utils


def call(model, tensors, wanted):
    """The wanted outputs of a model of the same server."""
    request = pb_utils.InferenceRequest(model_name=model, inputs=tensors, requested_output_names=wanted)
    response = request.exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return [pb_utils.get_output_tensor_by_name(response, name) for name in wanted]


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            try:
                tensors = request.inputs()
                tensors = call("sentiment_preprocess", tensors, ["FEATURES"])
                tensors = call("sentiment_classify", tensors, ["PROBABILITIES"])
                tensors = call("sentiment_postprocess", tensors, ["SENTIMENT", "CONFIDENCE"])
                responses.append(pb_utils.InferenceResponse(output_tensors=tensors))
            except pb_utils.TritonModelException as error:
                # This request fails, not the others of the batch.
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))
        return responses
