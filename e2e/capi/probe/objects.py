"""What can be asked without a server: words, errors, messages, parameters, buffers, options, allocators, traces, metrics."""

from __future__ import annotations

import ctypes as c

from library import ALLOC, FREE, I64, U32, Library, P, Server


def words(lib: Library, home) -> None:
    for name, most in (
        ("DataTypeString", 17),
        ("MemoryTypeString", 5),
        ("ParameterTypeString", 7),
        ("InstanceGroupKindString", 6),
        ("InferenceTraceLevelString", 18),
        ("InferenceTraceActivityString", 13),
    ):
        for i in range(-1, most):
            lib.say(f"{name} {i}", lib(name, i).decode())
    for i in range(-1, 17):
        lib.say(f"DataTypeByteSize {i}", lib("DataTypeByteSize", i))
    for word in ("BOOL", "bool", "FP32", "TYPE_FP32", "BYTES", "STRING", "BF16", "", "FP322", "INT", "UINT64"):
        lib.say(f"StringToDataType {word!r}", lib("StringToDataType", word))


def errors(lib: Library, home) -> None:
    for code in range(0, 10):
        e = P(lib("ErrorNew", code, "why"))
        lib.say(f"error {code}", f"{lib('ErrorCode', e)} {lib('ErrorCodeString', e)} {lib('ErrorMessage', e)}")
        lib("ErrorDelete", e)
    e = P(lib("ErrorNew", 1, ""))
    lib.say("error without a message", repr(lib("ErrorMessage", e)))
    lib("ErrorDelete", e)
    lib("ErrorDelete", None)
    e = P(lib("ErrorNew", 1, "x" * 100000))
    lib.say("long message", len(lib("ErrorMessage", e)))
    lib("ErrorDelete", e)


def messages(lib: Library, home) -> None:
    for text in (
        '{"a": [1, 2.50, "x\\"y"],\n "b": null}',
        "{}",
        "[]",
        "7",
        "1e3",
        '{"big": 18446744073709551615, "small": -9223372036854775808, "real": 0.1}',
        '"\\u00e9 \\u0000 \\/ /"',
        '"\u00e9"',
        '{"a":1,"a":2}',
        "true",
        " [ ] ",
        "",
        "{",
        "nothing",
        '{"a":1} trailing',
    ):
        made = P()
        e = lib("MessageNewFromSerializedJson", c.byref(made), text, len(text.encode()))
        lib.say(f"message {text!r}", lib.error(e) if e else lib.text(made.value))
    made = P()
    lib.must("MessageNewFromSerializedJson", c.byref(made), "[1, 2]xyz", 6)
    base, size = P(), c.c_size_t()
    for i in range(2):
        lib.must("MessageSerializeToJson", made, c.byref(base), c.byref(size))
        lib.say(f"serialized {i}", c.string_at(base.value, size.value).decode())
    lib.ask("deleted", "MessageDelete", made)


def buffers(lib: Library, home) -> None:
    b = P(lib.value_first("BufferAttributesNew"))

    lib.say("fresh type", lib.value("BufferAttributesMemoryType", b, kind=c.c_int))
    for value in (0, 1, 2):
        lib.ask(f"type {value}", "BufferAttributesSetMemoryType", b, value)
    for value in (-1, 0, 1 << 40):
        lib.ask(f"identity {value}", "BufferAttributesSetMemoryTypeId", b, value)
    lib.ask("size", "BufferAttributesSetByteSize", b, (1 << 64) - 1)
    handle = c.create_string_buffer(b"h" * 64, 64)
    lib.ask("handle", "BufferAttributesSetCudaIpcHandle", b, handle)
    handle.raw = b"x" * 64
    at = lib.value("BufferAttributesCudaIpcHandle", b)
    lib.say("handle is a copy", at != c.addressof(handle) and c.string_at(at, 64) == b"h" * 64)
    for name, kind in (("MemoryType", c.c_int), ("MemoryTypeId", I64), ("ByteSize", c.c_size_t)):
        lib.get(f"set {name}", "BufferAttributes" + name, b, kind=kind)
    lib.ask("deleted", "BufferAttributesDelete", b)


def parameters(lib: Library, home) -> None:
    number, yes, real = I64(-5), c.c_bool(True), c.c_double(0.5)
    for kind, value in (
        (0, "text"),
        (0, ""),
        (1, c.byref(number)),
        (2, c.byref(yes)),
        (3, c.byref(real)),
        (4, "x"),
        (5, "x"),
        (-1, "x"),
    ):
        p = lib("ParameterNew", "n", kind, value)
        lib.say(f"parameter of type {kind}", "made" if p else "null")
        if p:
            lib("ParameterDelete", P(p))
    for text, size in (("\0\1", 2), ("", 0), (None, 0)):
        p = lib("ParameterBytesNew", "n", text, size)
        lib.say(f"bytes {text!r} {size}", "made" if p else "null")
        if p:
            lib("ParameterDelete", P(p))


def allocators(lib: Library, home) -> None:
    alloc, free = ALLOC(lambda *_: None), FREE(lambda *_: None)
    a = P()
    lib.ask("without start", "ResponseAllocatorNew", c.byref(a), alloc, free, None)
    lib.ask("query", "ResponseAllocatorSetQueryFunction", a, None)
    lib.ask("attributes", "ResponseAllocatorSetBufferAttributesFunction", a, None)
    lib.ask("deleted", "ResponseAllocatorDelete", a)


def options(lib: Library, home) -> None:
    o = P(lib.value_first("ServerOptionsNew"))
    for name, *args in (
        ("SetServerId", "me"),
        ("SetServerId", ""),
        ("SetModelRepositoryPath", "/a"),
        ("SetModelRepositoryPath", "/a"),
        ("SetModelRepositoryPath", ""),
        ("SetModelControlMode", 0),
        ("SetModelControlMode", 1),
        ("SetModelControlMode", 2),
        ("SetModelControlMode", 3),
        ("SetModelControlMode", -1),
        ("SetStartupModel", "m"),
        ("SetStartupModel", "m"),
        ("SetStartupModel", ""),
        ("SetStartupModel", "*"),
        ("SetStrictModelConfig", True),
        ("SetModelConfigName", "other"),
        ("SetModelConfigName", ""),
        ("SetRateLimiterMode", 0),
        ("SetRateLimiterMode", 1),
        ("SetRateLimiterMode", 2),
        ("SetRateLimiterMode", -1),
        ("AddRateLimiterResource", "R", 3, -1),
        ("AddRateLimiterResource", "R", 3, -1),
        ("AddRateLimiterResource", "R", 4, 0),
        ("AddRateLimiterResource", "R", 0, -2),
        ("AddRateLimiterResource", "", 1, 0),
        ("SetPinnedMemoryPoolByteSize", 1 << 40),
        ("SetCudaMemoryPoolByteSize", 0, 1),
        ("SetCudaMemoryPoolByteSize", -5, 1),
        ("SetCudaVirtualAddressSize", 0, 1),
        ("SetResponseCacheByteSize", 0),
        ("SetResponseCacheByteSize", 1 << 20),
        ("SetCacheConfig", "local", '{"size": "1024"}'),
        ("SetCacheConfig", "local", '{"size": 1024}'),
        ("SetCacheConfig", "local", "nonsense"),
        ("SetCacheConfig", "local", ""),
        ("SetCacheConfig", "other", "{}"),
        ("SetCacheDirectory", "/nowhere"),
        ("SetMinSupportedComputeCapability", 0.0),
        ("SetMinSupportedComputeCapability", -1.0),
        ("SetExitOnError", True),
        ("SetStrictReadiness", False),
        ("SetExitTimeout", 0),
        ("SetBufferManagerThreadCount", 0),
        ("SetModelLoadThreadCount", 0),
        ("SetModelLoadThreadCount", 1000),
        ("SetModelLoadRetryCount", 0),
        ("SetModelNamespacing", True),
        ("SetEnablePeerAccess", True),
        ("SetLogFile", str(home / "log")),
        ("SetLogFile", ""),
        ("SetLogFile", "/nowhere/at/all"),
        ("SetLogInfo", False),
        ("SetLogWarn", False),
        ("SetLogError", False),
        ("SetLogFormat", 0),
        ("SetLogFormat", 1),
        ("SetLogVerbose", 0),
        ("SetLogVerbose", -3),
        ("SetMetrics", True),
        ("SetGpuMetrics", False),
        ("SetCpuMetrics", False),
        ("SetMetricsInterval", 0),
        ("SetMetricsInterval", 2000),
        ("SetMetricsConfig", "", "summary_latencies", "true"),
        ("SetMetricsConfig", "", "summary_quantiles", "0.5:0.1"),
        ("SetMetricsConfig", "", "unheard_of", "1"),
        ("SetMetricsConfig", "prefix", "x", "y"),
        ("SetBackendDirectory", "/nowhere"),
        ("SetBackendDirectory", ""),
        ("SetRepoAgentDirectory", "/nowhere"),
        ("SetModelLoadDeviceLimit", 2, 0, 0.5),
        ("SetModelLoadDeviceLimit", 2, 0, 0.0),
        ("SetModelLoadDeviceLimit", 2, 0, 1.0),
        ("SetModelLoadDeviceLimit", 2, 0, 1.5),
        ("SetModelLoadDeviceLimit", 2, 0, -0.1),
        ("SetModelLoadDeviceLimit", 2, -1, 0.5),
        ("SetModelLoadDeviceLimit", 0, 0, 0.5),
        ("SetModelLoadDeviceLimit", 1, 0, 0.5),
        ("SetModelLoadDeviceLimit", 3, 0, 0.5),
        ("SetModelLoadDeviceLimit", 1, -1, 1.5),
        ("SetBackendConfig", "python", "shm-region-prefix-name", "x"),
        ("SetBackendConfig", "", "default-max-batch-size", "4"),
        ("SetBackendConfig", "", "default-max-batch-size", "4"),
        ("SetBackendConfig", "x", "", ""),
        ("SetHostPolicy", "p", "numa-node", "0"),
        ("SetHostPolicy", "p", "cpu-cores", "0-1"),
        ("SetHostPolicy", "p", "numa-node", "nonsense"),
        ("SetHostPolicy", "p", "colour", "red"),
        ("SetHostPolicy", "", "numa-node", "0"),
    ):
        lib.ask(lib.plain(f"{name} {' '.join(map(repr, args))}"), "ServerOptions" + name, o, *args)
    lib.ask("deleted", "ServerOptionsDelete", o)


def refused_servers(lib: Library, home) -> None:
    empty, models = home / "empty", home / "models"
    empty.mkdir(exist_ok=True)
    file = home / "file"
    file.write_text("")
    for question, repository, more in (
        ("no repository", None, {}),
        ("a repository that is not there", "/nowhere", {}),
        ("a repository that is a file", file, {}),
        ("an empty repository", empty, {}),
        ("an empty repository, mode none", empty, {"mode": 0}),
        ("an empty repository, mode poll", empty, {"mode": 1}),
        ("startup models with mode none", empty, {"mode": 0, "StartupModel": "echo"}),
        ("a startup model that is not there", empty, {"StartupModel": "none"}),
        ("the same, going on", empty, {"StartupModel": "none", "ExitOnError": False}),
        ("a startup model that fails", models, {"StartupModel": "broken"}),
        ("all models and one more", empty, {"StartupModel": ["*", "echo"]}),
        ("all models of none", empty, {"StartupModel": "*"}),
        ("two caches", empty, {"CacheConfig": [("local", '{"size": "1024"}'), ("redis", "{}")]}),
        (
            "a cache with bad settings",
            empty,
            {"CacheConfig": ("local", "nonsense"), "CacheDirectory": str(home / "no")},
        ),
        ("a cache that is not there", empty, {"CacheConfig": ("unheard_of", "{}")}),
        ("an unknown metrics setting", empty, {"MetricsConfig": ("", "unheard_of", "1")}),
        ("a rate limiter", empty, {"RateLimiterMode": 1}),
        ("an unknown backend directory", empty, {"BackendDirectory": "/nowhere"}),
        ("two repositories, one twice", empty, {"ModelRepositoryPath": [str(empty), str(empty)]}),
        ("a server without an ID", empty, {"ServerId": ""}),
        ("a compute capability", empty, {"MinSupportedComputeCapability": 100.0}),
    ):
        s = Server(lib, repository, **{k: str(v) if hasattr(v, "parent") else v for k, v in more.items()})
        answer = s.start()
        lib.say(question, answer)
        if answer == "ok":
            lib.documented(f"{question}: index", "ServerModelIndex", s.handle, 0)
            lib.ask(f"{question}: stop", "ServerStop", s.handle)
            lib.ask(f"{question}: stop again", "ServerStop", s.handle)
            lib.ask(f"{question}: delete", "ServerDelete", s.handle)


def traces(lib: Library, home) -> None:
    from library import ACTIVITY, TENSOR, TRACE_RELEASE

    seen = []
    activity = ACTIVITY(lambda t, a, ns, user: seen.append(f"activity {a} at {ns} user={user}"))
    tensor = TENSOR(lambda *a: seen.append("tensor"))
    release = TRACE_RELEASE(lambda t, user: seen.append("release"))
    for level in (0, 1, 2, 3, 4, 8, 12, 16):
        t = P()
        answer = lib.error(lib("InferenceTraceNew", c.byref(t), level, 0, activity, release, P(3)))
        lib.say(f"level {level}", answer)
        if answer != "ok":
            continue
        lib.ask(f"level {level}: report", "InferenceTraceReportActivity", t, 17, "mine")
        lib.say(f"level {level}: seen", seen)
        seen.clear()
        child = P()
        lib.ask(f"level {level}: spawn", "InferenceTraceSpawnChildTrace", t, c.byref(child))
        same = lib.value("InferenceTraceParentId", child, kind=I64) == lib.value("InferenceTraceId", t, kind=I64)
        lib.say(f"level {level}: the child's parent is the trace", same)
        lib.ask(f"level {level}: report of the child", "InferenceTraceReportActivity", child, 18, "")
        lib.ask(f"level {level}: child deleted", "InferenceTraceDelete", child)
        lib.ask(f"level {level}: deleted", "InferenceTraceDelete", t)
        lib.say(f"level {level}: seen", seen)
        seen.clear()
    t = P()
    lib.must("InferenceTraceTensorNew", c.byref(t), 12, 9, activity, tensor, release, P(3))
    lib.get("parent", "InferenceTraceParentId", t, kind=I64)
    lib.get("model", "InferenceTraceModelName", t, kind=c.c_char_p)
    lib.get("request", "InferenceTraceRequestId", t, kind=c.c_char_p)
    lib.get("context", "InferenceTraceContext", t, kind=c.c_char_p)
    lib.ask("set context", "InferenceTraceSetContext", t, "some context")
    lib.get("context", "InferenceTraceContext", t, kind=c.c_char_p)
    lib.ask("set context again", "InferenceTraceSetContext", t, "")
    lib.get("context", "InferenceTraceContext", t, kind=c.c_char_p)
    lib.must("InferenceTraceSetContext", t, "handed on")
    child = P()
    lib.must("InferenceTraceSpawnChildTrace", t, c.byref(child))
    lib.get("context of a child", "InferenceTraceContext", child, kind=c.c_char_p)
    lib.ask("deleted", "InferenceTraceDelete", child)
    lib.ask("deleted", "InferenceTraceDelete", t)


def logs(lib: Library, home) -> None:
    o = P(lib.value_first("ServerOptionsNew"))
    path = home / "probe.log"

    def lines(question):
        text = path.read_text() if path.exists() else ""
        for line in text.splitlines():
            line = line[:1] + line[line.find("]") :] if "]" in line else line
            lib.say(question, line)
        if path.exists():
            path.write_text("")

    lib.must("ServerOptionsSetLogFile", o, str(path))
    for info, warn, error, verbose in (
        (True, True, True, 0),
        (False, False, False, 0),
        (False, False, False, 1),
        (True, False, True, 2),
    ):
        for name, value in (("LogInfo", info), ("LogWarn", warn), ("LogError", error), ("LogVerbose", verbose)):
            lib.must("ServerOptionsSet" + name, o, value)
        which = f"info={info} warn={warn} error={error} verbose={verbose}"
        for level in range(0, 4):
            lib.say(f"{which}: enabled {level}", lib("LogIsEnabled", level))
            lib.ask(f"{which}: message {level}", "LogMessage", level, "some/file.cc", 12, f"message of level {level}")
        lines(f"{which}: log")
    lib.say("enabled 4", lib("LogIsEnabled", 4))
    lib.ask("message 4", "LogMessage", 4, "f", 1, "m")
    for name, value in (("LogInfo", True), ("LogFormat", 1)):
        lib.must("ServerOptionsSet" + name, o, value)
    lib.ask("two lines", "LogMessage", 0, "f", 1, "one\ntwo")
    lib.ask("no text", "LogMessage", 0, "f", 1, "")
    lib.ask("no file", "LogMessage", 0, "", 0, "m")
    lines("ISO")
    lib.must("ServerOptionsDelete", o)


def versions(lib: Library, home) -> None:
    for name in ("TRITONSERVER", "TRITONBACKEND", "TRITONREPOAGENT", "TRITONCACHE"):
        major, minor = U32(), U32()
        lib.must(f"{name}_ApiVersion", c.byref(major), c.byref(minor))
        lib.say(name, f"{major.value} {minor.value}")


STORIES = [words, errors, messages, buffers, parameters, allocators, options, refused_servers, traces, logs, versions]
