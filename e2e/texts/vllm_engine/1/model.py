"""The way of vLLM's backend for Triton: an event loop of its own, an engine that gives cumulative outputs, response senders."""

import asyncio
import json
import threading

import numpy as np
import triton_python_backend_utils as pb_utils

KNOWN = {"n", "temperature", "top_p", "top_k", "max_tokens", "stop", "seed", "logprobs", "presence_penalty"}


class Engine:
    """Says the prompt's words in capital letters, fails at the word FAIL and tells at `aborted` how many were.

    `endless` goes on until it is aborted.
    """

    def __init__(self):
        self.aborted = 0

    async def generate(self, prompt, params):
        words = [w.upper() for w in prompt.split()][: params.get("max_tokens", 100)]
        words = [str(self.aborted) if w == "ABORTED" else w for w in words]
        said = 0
        while said < len(words) or "ENDLESS" in words:
            await asyncio.sleep(0.005)
            said += 1
            if words[min(said, len(words)) - 1] == "FAIL":
                raise ValueError("the engine failed")
            text = " ".join(words[:said])
            yield text, said, None if said < len(words) or "ENDLESS" in words else "length"


class TritonPythonModel:
    def initialize(self, args):
        self.engine, self.loop = Engine(), asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def execute(self, requests):
        for request in requests:
            asyncio.run_coroutine_threadsafe(self.generate(request), self.loop)

    def flag(self, request, name):
        tensor = pb_utils.get_input_tensor_by_name(request, name)
        return tensor is not None and bool(tensor.as_numpy()[0])

    async def generate(self, request):
        sender = request.get_response_sender()
        final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        try:
            prompt = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[0].decode()
            raw = pb_utils.get_input_tensor_by_name(request, "sampling_parameters")
            params = json.loads(raw.as_numpy()[0]) if raw is not None else {}
            if unknown := set(params) - KNOWN:
                raise TypeError(f"unexpected keyword argument {sorted(unknown)}")
            if not self.flag(request, "exclude_input_in_output"):
                raise ValueError("the prompt would stand in the output")
            length = tokens = 0
            async for text, count, finish in self.engine.generate(prompt, params):
                if sender.is_cancelled():
                    self.engine.aborted += 1
                    break
                outputs = [pb_utils.Tensor("text_output", np.array([text[length:].encode()], dtype=object))]
                if self.flag(request, "return_finish_reason"):
                    outputs.append(pb_utils.Tensor("finish_reason", np.array([str(finish)], dtype=object)))
                if self.flag(request, "return_num_input_tokens"):
                    outputs.append(
                        pb_utils.Tensor("num_input_tokens", np.array([len(prompt.split())], dtype=np.uint32))
                    )
                if self.flag(request, "return_num_output_tokens"):
                    outputs.append(pb_utils.Tensor("num_output_tokens", np.array([count - tokens], dtype=np.uint32)))
                if self.flag(request, "return_logprobs"):
                    token = {"logprob": -0.5, "rank": 2, "decoded_token": text[length:]}
                    other = {"logprob": -0.25, "rank": 1, "decoded_token": "?"}
                    value = json.dumps([{"7": token, "3": other}])
                    outputs.append(pb_utils.Tensor("logprobs", np.array([value.encode()], dtype=object)))
                length, tokens = len(text), count
                sender.send(pb_utils.InferenceResponse(outputs))
        except Exception as e:
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(f"Error generating stream: {e}")))
        finally:
            sender.send(flags=final)

    def finalize(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
