"""What a server says of itself: its version, its services, what it is loading."""

from __future__ import annotations

import re
import threading

import grpc
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from repository import X, python_model, until
from server import Server
from tritonclient.utils import InferenceServerException


def test_the_version_is_one_that_parsers_of_versions_read(server):
    over_http = httpclient.InferenceServerClient(server.http).get_server_metadata()
    over_grpc = grpcclient.InferenceServerClient(server.grpc).get_server_metadata()
    assert over_http["name"] == over_grpc.name == "triton"
    assert over_http["version"] == over_grpc.version
    major, minor, patch = (int(n) for n in over_http["version"].split("."))
    assert (major, minor, patch) == (2, 51, 0)


def test_root_says_what_this_is(server):
    reply = server.get("/")
    assert reply.status == 404 and "Neso, an inference server" in reply.error
    assert reply.json["documentation"].endswith("docs/use/http.md") and "GET /v2" in reply.json["endpoints"]
    assert server.post("/").json == server.get("/other").json == {"error": "Not Found"}


# The messages of server reflection, of which the official client has no copy here: fields by their numbers.
FILE = descriptor_pb2.FileDescriptorProto(name="reflection_for_test.proto", package="refl", syntax="proto3")
TEXT, BYTES, MESSAGE = (
    getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind}") for kind in ("STRING", "BYTES", "MESSAGE")
)
for message, fields in {
    "Request": [("file_by_filename", 3, TEXT), ("file_containing_symbol", 4, TEXT), ("list_services", 7, TEXT)],
    "Service": [("name", 1, TEXT)],
    "Services": [("service", 1, "Service")],
    "Files": [("file_descriptor_proto", 1, BYTES)],
    "Error": [("error_message", 2, TEXT)],
    "Response": [("files", 4, "Files"), ("services", 6, "Services"), ("error", 7, "Error")],
}.items():
    described = FILE.message_type.add(name=message)
    for name, number, kind in fields:
        label = 3 if name in ("service", "file_descriptor_proto") else 1
        field = described.field.add(name=name, number=number, label=label)
        field.type = MESSAGE if isinstance(kind, str) else kind
        if isinstance(kind, str):
            field.type_name = f".refl.{kind}"
CLASSES = message_factory.GetMessages([FILE])
Request, Response = CLASSES["refl.Request"], CLASSES["refl.Response"]


def reflect(channel, version, *requests):
    call = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=Request.SerializeToString,
        response_deserializer=Response.FromString,
    )
    return list(call(iter(requests), timeout=60))


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection(server, version):
    with grpc.insecure_channel(server.grpc) as channel:
        (listed,) = reflect(channel, version, Request(list_services="*"))
        names = {s.name for s in listed.services.service}
        for name in names:  # what is listed is described
            (described,) = reflect(channel, version, Request(file_containing_symbol=name))
            assert described.files.file_descriptor_proto, name
        assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= names
        files = descriptor_pool.DescriptorPool()
        found = reflect(
            channel,
            version,
            *[Request(file_containing_symbol=n) for n in ("inference.GRPCInferenceService", "grpc.health.v1.Health")],
        )
        raw = {}
        for response in found:
            for b in response.files.file_descriptor_proto:
                f = descriptor_pb2.FileDescriptorProto.FromString(b)
                raw[f.name] = f
        added = set()

        def add(f):
            for needed in f.dependency:
                if needed not in added and needed in raw:
                    add(raw[needed])
            if f.name not in added:
                files.Add(f)
                added.add(f.name)

        for f in raw.values():
            add(f)
        service = files.FindServiceByName("inference.GRPCInferenceService")
        theirs = grpcclient.service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
        ours = {m.name: m for m in service.methods}
        for method in theirs.methods:
            mine = ours[method.name]
            assert mine.input_type.full_name == method.input_type.full_name
            assert mine.output_type.full_name == method.output_type.full_name
            fields = {f.name: f.number for f in method.input_type.fields}
            assert fields.items() <= {f.name: f.number for f in mine.input_type.fields}.items(), method.name
        # What a client makes of the descriptors alone is what the server reads.
        metadata = ours["ModelMetadata"]
        q, p = (message_factory.GetMessageClass(t) for t in (metadata.input_type, metadata.output_type))
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelMetadata",
            request_serializer=q.SerializeToString,
            response_deserializer=p.FromString,
        )
        assert json_format.MessageToDict(call(q(name="add_sub")))["name"] == "add_sub"
        (error,) = reflect(channel, version, Request(file_containing_symbol="inference.Nope"))
        assert "not found" in error.error.error_message


def test_reflection_off_restricted_and_at_the_end(tmp_path):
    python_model(tmp_path, "m")
    with Server(tmp_path, "--grpc-reflection=false") as s, grpc.insecure_channel(s.grpc) as channel:
        with pytest.raises(grpc.RpcError) as e:
            reflect(channel, "v1", Request(list_services="*"))
        assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED
    with (
        Server(tmp_path, "--grpc-restricted-protocol=metadata:key=v") as s,
        grpc.insecure_channel(s.grpc) as channel,
    ):
        with pytest.raises(grpc.RpcError) as e:
            reflect(channel, "v1", Request(list_services="*"))
        assert e.value.code() == grpc.StatusCode.UNAVAILABLE
    with Server(tmp_path, "--exit-timeout-secs=600") as s, grpc.insecure_channel(s.grpc) as channel:
        call = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        ended = threading.Event()
        stream = call(one_request_and_no_end(ended), timeout=300)
        next(stream)
        s.process.terminate()  # the stream is open, and does not hold up the end
        assert list(stream) == []
        assert s.process.wait(120) == 0
        ended.set()


def one_request_and_no_end(ended):
    yield Request(list_services="*").SerializeToString()
    ended.wait(300)


def test_a_start_says_what_it_loads(tmp_path):
    fifo = tmp_path / "go"
    for name in ("slow_a", "slow_b", "quick"):
        python_model(tmp_path / "models", name)
    waits = f"import os, time\n        while not os.path.exists({str(fifo)!r}): time.sleep(0.02)"
    for name in ("slow_a", "slow_b"):
        python_model(tmp_path / "models", name, init=waits)
    s = Server(tmp_path / "models", wait=False)
    try:

        def loading():
            try:
                reply = s.get("/v2/health/ready")
            except OSError:
                return False
            assert reply.status == 503
            return re.search(r"Server not ready: loading 3 of 3: slow_a, slow_b$", reply.error)

        assert until(loading), s.log()
        assert s.get("/v2/health/live").status == 503
        assert "loading 3 of 3: slow_a, slow_b" in s.get("/v2/health/ready?verbose").body.decode()
        with pytest.raises(InferenceServerException) as e:
            grpcclient.InferenceServerClient(s.grpc).is_server_live()
        assert "UNAVAILABLE" in str(e.value) and "loading 3 of 3" in str(e.value)
        assert until(lambda: '"loading 3 of 3: slow_a, slow_b"' in s.log()), s.log()
        assert "exiting" not in s.log().lower()
        fifo.touch()
        s.wait_ready()
        assert s.infer("quick", X).status == 200
    finally:
        s.stop()
