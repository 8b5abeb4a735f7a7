"""A stand-in for vLLM: what NVIDIA's backend for Triton (vllm_backend, model.py) takes of it, under the same names.

Its engine says the words of the prompt in capital letters, one each step, and gives cumulative outputs as vLLM's does. FAIL fails, ENDLESS
goes on until it is aborted, ABORTED says how many were.
"""

import asyncio
import sys
import types
import uuid
from dataclasses import dataclass, field
from typing import Optional


@dataclass
class AsyncEngineArgs:
    model: str
    disable_log_stats: bool = False
    enable_log_requests: bool = False
    aggregate_engine_logging: bool = False
    enable_lora: bool = False
    tensor_parallel_size: int = 1

    def create_engine_config(self, usage_context=None):
        if self.model == "missing":
            raise ValueError("there is no such model")
        return VllmConfig()


@dataclass
class VllmConfig:
    model_config: types.SimpleNamespace = field(default_factory=lambda: types.SimpleNamespace(max_model_len=100))


class StatLoggerBase:
    def __init__(self, vllm_config, engine_index=0):
        self.vllm_config, self.engine_index = vllm_config, engine_index


def build_1_2_5_buckets(most):
    return [b for e in range(4) for b in (10**e, 2 * 10**e, 5 * 10**e) if b <= most]


class SamplingParams:
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: Optional[int] = 16
    seed: Optional[int] = None
    logprobs: Optional[int] = None
    stop: Optional[list] = None
    presence_penalty: float = 0.0
    structured_outputs: Optional[object] = None

    def __init__(self, **values):
        known = {name for c in type(self).__mro__ for name in getattr(c, "__annotations__", {})}
        if unknown := set(values) - known:
            raise TypeError(f"unexpected keyword argument {sorted(unknown)}")
        self.__dict__.update(values)


@dataclass
class Logprob:
    logprob: float
    rank: int
    decoded_token: str


@dataclass
class CompletionOutput:
    text: str
    token_ids: list
    finish_reason: Optional[str]
    logprobs: Optional[list]
    cumulative_logprob: float = -0.5


@dataclass
class RequestOutput:
    prompt: str
    prompt_token_ids: list
    outputs: list
    finished: bool


class AsyncLLM:
    @classmethod
    def from_vllm_config(cls, vllm_config, stat_loggers=None, **options):
        self = cls()
        self.aborted, self.open = 0, set()
        self.loggers = [factory(vllm_config, 0) for factory in stat_loggers or ()]
        return self

    async def reset_mm_cache(self):
        pass

    async def get_supported_tasks(self):
        return ("generate",)

    async def check_health(self):
        pass

    async def abort(self, request_id):
        self.aborted += 1
        self.open.discard(request_id)

    def shutdown(self):
        pass

    async def generate(self, prompt, params, request_id, lora_request=None):
        words = [w.upper() for w in prompt.split()][: params.max_tokens]
        words = [str(self.aborted) if w == "ABORTED" else w for w in words]
        endless = "ENDLESS" in words
        self.open.add(request_id)
        said = 0
        while (said < len(words) or endless) and request_id in self.open:
            await asyncio.sleep(0.005)
            said += 1
            if words[min(said, len(words)) - 1] == "FAIL":
                raise ValueError("the engine failed")
            finished = said >= len(words) and not endless
            text, tokens = " ".join(words[:said]), list(range(said))
            logprobs = [{t: Logprob(-0.5, 1, words[min(t, len(words) - 1)])} for t in tokens]
            one = CompletionOutput(
                text, tokens, "length" if finished else None, logprobs if params.logprobs is not None else None
            )
            self.tell(len(words) if said == 1 else 0, finished, said)
            yield RequestOutput(prompt, list(range(len(words))), [one] * params.n, finished)
        self.open.discard(request_id)

    def tell(self, read, finished, said):
        """What vLLM's statistics have of one step."""
        done = (
            [types.SimpleNamespace(e2e_latency=0.1, num_prompt_tokens=2, num_generation_tokens=said)]
            if finished
            else []
        )
        stats = types.SimpleNamespace(
            finished_requests=done,
            num_prompt_tokens=read,
            num_generation_tokens=1,
            time_to_first_tokens_iter=[0.01] if read else [],
            inter_token_latencies_iter=[] if read else [0.01],
            n_params_iter=[1] if finished else [],
        )
        for logger in self.loggers:
            logger.record(None, stats)


def module(name, **names):
    made = types.ModuleType(f"vllm.{name}")
    made.__dict__.update(names)
    sys.modules[made.__name__] = made


def some(*names):
    """Classes that are named only."""
    return {name: type(name, (), {"__class_getitem__": classmethod(lambda cls, item: cls)}) for name in names}


for package in ("engine", "v1", "v1.metrics", "v1.engine", "inputs", "lora", "usage"):
    module(package, __path__=[])
module("engine.arg_utils", AsyncEngineArgs=AsyncEngineArgs)
module("engine.protocol", **some("EngineClient"))
module("config", VllmConfig=VllmConfig)
module(
    "v1.metrics.loggers",
    StatLoggerBase=StatLoggerBase,
    build_1_2_5_buckets=build_1_2_5_buckets,
    **some("StatLoggerFactory"),
)
module("v1.metrics.stats", **some("IterationStats", "MultiModalCacheStats", "SchedulerStats"))
module("v1.engine.async_llm", AsyncLLM=AsyncLLM)
module("inputs.data", **some("TokensPrompt"))
module("lora.request", **some("LoRARequest"))
module(
    "outputs", RequestOutput=RequestOutput, **some("EmbeddingOutput", "EmbeddingRequestOutput", "PoolingRequestOutput")
)
module("pooling_params", **some("PoolingParams"))
module("utils", random_uuid=lambda: uuid.uuid4().hex)
module("sampling_params", SamplingParams=SamplingParams, **some("StructuredOutputsParams"))
module("usage.usage_lib", UsageContext=types.SimpleNamespace(OPENAI_API_SERVER="openai"))
