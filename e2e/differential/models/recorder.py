"""The model of all programs: it writes down what it saw, and does what its configuration and each request ask for.

Its behaviour is JSON in the parameter `behaviour` of the configuration, the order for one request JSON in the
request's parameter `do`. What it saw goes, a line for each event, to DIFFERENTIAL_RECORD/<model>.jsonl.
"""

import json
import os
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils

FOLDER = os.environ["DIFFERENTIAL_RECORD"]
PATIENCE = 20.0
NAMES = {1: "BOOL", 2: "UINT8", 3: "UINT16", 4: "UINT32", 5: "UINT64", 6: "INT8", 7: "INT16", 8: "INT32"}
NAMES.update({9: "INT64", 10: "FP16", 11: "FP32", 12: "FP64", 13: "BYTES", 14: "BF16"})


def record(model, event, **facts):
    line = json.dumps({"event": event, **facts}).encode() + b"\n"
    handle = os.open(os.path.join(FOLDER, model + ".jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def plain(array):
    """The elements as JSON has them; bytes one character each."""
    values = array.reshape(-1).tolist()
    return [v.decode("latin-1") if isinstance(v, bytes) else v for v in values]


def tensor_facts(tensor):
    try:
        array = tensor.as_numpy()
    except Exception as error:  # BF16: NumPy has no such type
        return [tensor.name(), type(error).__name__, list(tensor.shape()), []]
    return [tensor.name(), str(array.dtype), list(array.shape), plain(array)]


def numpy_type(word):
    return None if word == "TYPE_BF16" else pb_utils.triton_string_to_numpy(word)


def code_name(code):
    names = [
        "UNKNOWN",
        "INTERNAL",
        "NOT_FOUND",
        "INVALID_ARG",
        "UNAVAILABLE",
        "UNSUPPORTED",
        "ALREADY_EXISTS",
        "CANCELLED",
    ]
    return next((name for name in names if getattr(pb_utils.TritonError, name) == code), str(code))


def orders(request):
    text = request.parameters()
    return json.loads(json.loads(text).get("do", "{}")) if text else {}


def request_facts(request):
    return {
        "id": request.request_id(),
        "correlation": request.correlation_id(),
        "flags": request.flags(),
        "timeout": request.timeout(),
        "parameters": json.loads(request.parameters() or "{}"),
        "outputs": sorted(request.requested_output_names()),
        "inputs": [tensor_facts(t) for t in request.inputs()],
    }


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(auto):
        config = auto.as_dict()
        text = config.get("parameters", {}).get("behaviour", {}).get("string_value", "{}")
        wanted = json.loads(text).get("completes", {})
        for tensor in wanted.get("inputs", []):
            auto.add_input(tensor)
        for tensor in wanted.get("outputs", []):
            auto.add_output(tensor)
        if "max_batch_size" in wanted:
            auto.set_max_batch_size(wanted["max_batch_size"])
        if wanted.get("dynamic_batching"):
            auto.set_dynamic_batching()
        if "decoupled" in wanted:
            auto.set_model_transaction_policy({"decoupled": wanted["decoupled"]})
        return auto

    def initialize(self, args):
        self.config = json.loads(args["model_config"])
        self.model = args["model_name"]
        self.version = args["model_version"]
        self.behaviour = json.loads(self.config["parameters"]["behaviour"]["string_value"])
        self.batches = self.config["max_batch_size"] > 0
        self.decoupled = self.config.get("model_transaction_policy", {}).get("decoupled", False)
        self.bf16 = {i["name"] for i in self.config["input"] if i["data_type"] == "TYPE_BF16"}  # not known to NumPy
        self.types = {o["name"]: numpy_type(o["data_type"]) for o in self.config["output"]}
        self.sums = {}
        self.lock = threading.Lock()
        seen = {key: args[key] for key in sorted(args) if key not in ("model_config", "model_repository")}
        fails = self.behaviour.get("initialize")
        record(self.model, "fails" if fails else "initialize", args=seen, config=self.config)
        if fails == "raise":
            raise RuntimeError("this model does not start")
        if fails == "exception":
            raise pb_utils.TritonModelException("this model does not want to start")

    def execute(self, requests):
        asked = [orders(r) for r in requests]
        record(self.model, "execute", version=self.version, requests=[request_facts(r) for r in requests])
        for request, do in zip(requests, asked):
            self.wait(request, do)
        faults = [do["fault"] for do in asked if "fault" in do]
        if "raise" in faults:
            raise RuntimeError("kaboom")
        if "exception" in faults:
            raise pb_utils.TritonModelException("no more")
        if self.behaviour.get("iterative"):
            return self.iterate(requests)
        if self.decoupled:
            for request, do in zip(requests, asked):
                self.stream(request, do)
            return "a text" if "type" in faults else None
        if any(do.get("sender") for do in asked):
            for request, do in zip(requests, asked):
                self.send(request.get_response_sender(), [self.answer(request, do)], do)
            return None
        answers = [self.answer(request, do) for request, do in zip(requests, asked)]
        if "few" in faults:
            return answers[:-1]
        if "type" in faults:
            return tuple(answers)
        if "item" in faults:
            return ["a text" for _ in answers]
        return answers

    def wait(self, request, do):
        """Holds the batch until the driver opens the gate, or until the server says that the client has gone."""
        end = time.monotonic() + PATIENCE
        if "gate" in do:
            record(self.model, "waits", gate=do["gate"])
            path = os.path.join(FOLDER, do["gate"])
            while not os.path.exists(path) and time.monotonic() < end:
                time.sleep(0.002)  # polling the driver: there is nothing to wait on
        if do.get("until") == "cancelled":
            record(self.model, "waits", gate=do["mark"])
            while not request.is_cancelled() and time.monotonic() < end:
                time.sleep(0.002)
            record(self.model, "opened", cancelled=request.is_cancelled())

    def answer(self, request, do):
        fault = do.get("fault", "")
        if fault.startswith("error"):
            record(self.model, "refuses")
        if fault.startswith("error:"):
            code = getattr(pb_utils.TritonError, fault.removeprefix("error:"))
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("the model says no", code))
        if fault == "error":
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("the model says no"))
        if "calls" in do:
            failed = self.call_all(request, do["calls"])
            if failed is not None:
                return failed
        tensors = [self.output(request, *entry) for entry in self.behaviour["outputs"]]
        if fault == "missing":
            tensors = tensors[1:]
        if fault == "extra":
            tensors.append(pb_utils.Tensor("ANOTHER", np.zeros([1, 1], np.int32)))
        if fault == "shape":
            name = self.behaviour["outputs"][0][0]
            tensors[0] = pb_utils.Tensor(name, np.zeros([2, 3, 1], self.types[name]))
        if fault == "datatype":
            tensors[0] = pb_utils.Tensor(self.behaviour["outputs"][0][0], np.array([[7]], np.int16))
        return pb_utils.InferenceResponse(output_tensors=tensors)

    def output(self, request, name, how, source):
        tensor = pb_utils.get_input_tensor_by_name(request, source)
        if tensor is None:
            shape = [1, 1] if self.batches else [1]
            kind = self.types[name]
            return pb_utils.Tensor(name, np.full(shape, b"" if kind == np.object_ else 0, kind))
        if source in self.bf16:
            if how != "size":
                return pb_utils.Tensor.from_dlpack(name, tensor.to_dlpack())
            array = np.zeros(list(tensor.shape()))
        else:
            array = tensor.as_numpy()
        if how == "flip":
            array = array[..., ::-1]
        elif how == "size":
            rows = [len(array), 1] if self.batches else [1]
            array = np.full(rows, array.size, np.int32)
        elif how == "sum":
            with self.lock:
                key = str(request.correlation_id())
                if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
                    self.sums[key] = 0
                self.sums[key] = self.sums.get(key, 0) + array.astype(np.float64).sum()
                array = np.full([1, 1] if self.batches else [1], self.sums[key]).astype(self.types[name])
        return pb_utils.Tensor(name, array)

    def send(self, sender, answers, do):
        last = len(answers) - 1
        together = do.get("final", "with") == "with"
        for number, answer in enumerate(answers):
            sender.send(answer, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if together and number == last else 0)
        if not together or not answers:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def stream(self, request, do):
        answers = []
        for number in range(do.get("n", 1)):
            if do.get("error_at") == number:
                record(self.model, "refuses")
                answers.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(f"no answer {number}")))
            else:
                answers.append(self.answer(request, {k: v for k, v in do.items() if k != "calls" or number == 0}))
        if do.get("thread"):
            thread = threading.Thread(target=self.send, args=(request.get_response_sender(), answers, do))
            thread.start()
            thread.join()
        else:
            self.send(request.get_response_sender(), answers, do)

    def iterate(self, requests):
        """A response for each iteration; the requests come again until they have been answered often enough."""
        for request in requests:
            key = str(request.correlation_id())
            if self.begins(request):
                self.sums[key] = 0
            if not self.is_ready_slot(request):
                request.get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                continue
            self.sums[key] = self.sums.get(key, 0) + 1
            final = self.sums[key] >= self.behaviour["iterative"]
            tensors = [self.output(request, *entry) for entry in self.behaviour["outputs"]]
            flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if final else 0
            request.get_response_sender().send(pb_utils.InferenceResponse(output_tensors=tensors), flags)
            if not final:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        return None

    def control(self, request, name, otherwise):
        tensor = pb_utils.get_input_tensor_by_name(request, name)
        return otherwise if tensor is None else bool(tensor.as_numpy().reshape(-1)[0])

    def begins(self, request):
        return self.control(request, "START", False)

    def is_ready_slot(self, request):
        return self.control(request, "READY", True)

    def call_all(self, request, calls):
        """Calls other models with this request's inputs, and writes down what they answered."""
        for call in calls:
            inputs = [self.input(request, old, new) for new, old in call["inputs"]]
            asked = pb_utils.InferenceRequest(
                model_name=call["model"], requested_output_names=call["outputs"], inputs=inputs,
                request_id=call.get("id", ""), correlation_id=call.get("correlation", 0), flags=call.get("flags", 0),
                model_version=call.get("version", -1), parameters=call.get("parameters"),
            )  # fmt: skip
            answers = asked.exec(decoupled=True) if call.get("decoupled") else [asked.exec()]
            told = []
            for answer in answers:
                if answer.has_error():
                    told.append(["error", answer.error().message(), code_name(answer.error().code())])
                else:
                    told.append([tensor_facts(t) for t in answer.output_tensors()])
            record(self.model, "called", told=told)
            if call.get("must") and told and told[0][:1] == ["error"]:
                record(self.model, "refuses")
                return pb_utils.InferenceResponse(error=pb_utils.TritonError("callee: " + told[0][1]))
        return None

    def input(self, request, name, new):
        tensor = pb_utils.get_input_tensor_by_name(request, name)
        if name in self.bf16:
            return pb_utils.Tensor.from_dlpack(new, tensor.to_dlpack())
        return pb_utils.Tensor(new, tensor.as_numpy())

    def finalize(self):
        record(self.model, "finalize")
