import asyncio
import json

import numpy as np
import triton_python_backend_utils as pb_utils


def text_of(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy().reshape(-1)[0].decode()


def response(text, finish, prompt, written):
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor("text_output", np.array([text], dtype=object)),
            pb_utils.Tensor("finish_reason", np.array([finish], dtype=object)),
            pb_utils.Tensor("num_input_tokens", np.array([prompt], dtype=np.uint32)),
            pb_utils.Tensor("num_output_tokens", np.array([written], dtype=np.uint32)),
        ]
    )


class TritonPythonModel:
    """A token is a word. `pause_ms`, which the API does not know, comes with the other parameters."""

    async def execute(self, requests):
        request = requests[0]  # the model does not batch
        wishes = json.loads(text_of(request, "sampling_parameters") or "{}")
        prompt = text_of(request, "text_input")
        if prompt is None:
            messages = json.loads(text_of(request, "messages"))
            prompt = messages[-1].get("content") or ""
            if not isinstance(prompt, str):
                prompt = "".join(part.get("text", "") for part in prompt)
        words = prompt.split()
        tools = wishes.get("tools") or []
        if tools and wishes.get("tool_choice") == "required":
            call = {"name": tools[0]["function"]["name"], "arguments": {"text": prompt}}
            words = [f"<tool_call>{json.dumps(call)}</tool_call>"]
        finish = "stop"
        for stop in wishes.get("stop", []):
            if stop in words:
                words = words[: words.index(stop)]
        if len(words) > wishes.get("max_tokens", len(words)):
            words, finish = words[: wishes["max_tokens"]], "length"
        for i, word in enumerate(words):
            await asyncio.sleep(wishes.get("pause_ms", 0) / 1000)  # meanwhile other requests are served
            yield response((" " if i else "") + word, "", len(prompt.split()), 1)
        yield response("", finish, len(prompt.split()), 0)
