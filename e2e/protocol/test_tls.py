"""TLS and mutual TLS on every listener, with the official clients."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import warnings

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
import trustme
from repository import identity_model, until
from server import BINARY, Server


class Files:
    """An authority, a server's certificate and a client's, as files."""

    def __init__(self, directory):
        directory.mkdir(exist_ok=True)
        self.ca, self.cert, self.key = (str(directory / n) for n in ("ca.pem", "cert.pem", "key.pem"))
        self.client_cert, self.client_key = str(directory / "client.pem"), str(directory / "client-key.pem")
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca)
        self.authority = authority
        self.renew()
        client = authority.issue_cert("client@example.org")
        client.private_key_pem.write_to_path(self.client_key)
        client.cert_chain_pems[0].write_to_path(self.client_cert)

    def renew(self):
        cert = self.authority.issue_cert("localhost", "127.0.0.1")
        cert.private_key_pem.write_to_path(self.key)
        cert.cert_chain_pems[0].write_to_path(self.cert)

    def options(self, mutual):
        options = []
        for listener in ("http", "metrics"):
            options += [f"--{listener}-tls-cert={self.cert}", f"--{listener}-tls-key={self.key}"]
            options += [f"--{listener}-tls-client-ca={self.ca}"] if mutual else []
        options += [
            "--grpc-use-ssl=true",
            f"--grpc-server-cert={self.cert}",
            f"--grpc-server-key={self.key}",
            f"--grpc-root-cert={self.ca}",
        ]
        return options + (["--grpc-use-ssl-mutual=true"] if mutual else [])

    def context(self, with_client):
        context = ssl.create_default_context(cafile=self.ca)
        if with_client:
            context.load_cert_chain(self.client_cert, self.client_key)
        return context


@pytest.mark.parametrize(
    "suite", ["ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-GCM-SHA384"]
)
def test_suites_of_tls_1_2(tmp_path, suite):
    """Those with authenticated encryption only, on every listener."""
    repo = tmp_path / "models"
    repo.mkdir()
    files = Files(tmp_path / "tls")
    s = Server(repo, *files.options(False), wait=False)
    try:
        assert until(lambda: "Started Metrics Service" in s.log())
        for port in (s.http_port, s.grpc_port, s.metrics_port):
            context = files.context(False)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_alpn_protocols(["h2", "http/1.1"])
            context.set_ciphers(suite + ":@SECLEVEL=0")
            with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
                if "GCM" in suite:
                    with context.wrap_socket(plain, server_hostname="localhost") as tls:
                        assert tls.cipher()[0] == suite
                else:
                    with pytest.raises(ssl.SSLError):
                        context.wrap_socket(plain, server_hostname="localhost")
    finally:
        s.stop()


def get(server, port, path, context):
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def wait_ready(server, context):
    def ready():
        assert server.process.poll() is None, server.log()
        try:
            return get(server, server.http_port, "/v2/health/ready", context) == 200
        except (ConnectionRefusedError, TimeoutError):
            return False

    assert until(ready, timeout=180), server.log()


@pytest.fixture(scope="module", params=[False, True], ids=["tls", "mutual"])
def secured(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    files = Files(directory / "files")
    identity_model(directory / "models", "m")
    with Server(directory / "models", *files.options(request.param), wait=False) as s:
        wait_ready(s, files.context(request.param))
        yield s, files, request.param


def test_official_http_client(secured):
    s, files, mutual = secured
    options = {"ca_certs": files.ca}
    if mutual:
        options |= {"certfile": files.client_cert, "keyfile": files.client_key}
    c = httpclient.InferenceServerClient(s.http, ssl=True, ssl_options=options)
    x = httpclient.InferInput("INPUT0", [1, 3], "FP32")
    x.set_data_from_numpy(np.array([[1, 2, 3]], np.float32))
    assert c.infer("m", [x]).as_numpy("OUTPUT0").tolist() == [[1, 2, 3]]
    c.close()


def test_official_grpc_client(secured):
    s, files, mutual = secured
    options = {"root_certificates": files.ca}
    if mutual:
        options |= {"private_key": files.client_key, "certificate_chain": files.client_cert}
    c = grpcclient.InferenceServerClient(s.grpc, ssl=True, **options)
    x = grpcclient.InferInput("INPUT0", [1, 3], "FP32")
    x.set_data_from_numpy(np.array([[1, 2, 3]], np.float32))
    assert c.infer("m", [x]).as_numpy("OUTPUT0").tolist() == [[1, 2, 3]]
    c.close()


def test_metrics(secured):
    s, files, mutual = secured
    assert get(s, s.metrics_port, "/metrics", files.context(mutual)) == 200


def test_commands(secured, tmp_path):
    """The commands for a running server trust an authority and bring a certificate, both by option and by environment."""
    s, files, mutual = secured
    url = ["--url", f"https://127.0.0.1:{s.http_port}"]

    def ready(*options, **env):
        done = subprocess.run(
            [BINARY, "ready", "m", *url, *options], capture_output=True, text=True, timeout=120, env=env
        )
        return done.returncode, done.stderr

    status, why = ready()
    assert status != 0 and "certificate" in why
    trust, client = ["--cacert", files.ca], ["--cert", files.client_cert, "--cert-key", files.client_key]
    status, why = ready(*trust)
    assert (status != 0 and "tls: certificate required" in why) if mutual else (status, why) == (0, ""), why
    assert ready(*trust, *client) == (0, "")
    assert ready(NESO_CACERT=files.ca, NESO_CERT=files.client_cert, NESO_CERT_KEY=files.client_key) == (0, "")
    (tmp_path / "empty.pem").write_text("nothing")
    for options, text in (
        (["--cacert", str(tmp_path / "none.pem")], "--cacert: open "),
        (["--cacert", str(tmp_path / "empty.pem")], "expected certificates in PEM form, found none"),
        ([*trust, "--cert", files.ca], f"--cert {files.ca}: "),
        (["--cert-key", files.client_key], "needs --cert"),
    ):
        status, why = ready(*options)
        assert status != 0 and text in why, why


def test_plain_text_is_refused(secured):
    s, _, _ = secured
    for port in (s.http_port, s.metrics_port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/v2/health/live")
        assert connection.getresponse().status == 400
        connection.close()
    with grpc.insecure_channel(s.grpc) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=5)


def test_why_a_client_without_certificate_is_refused(secured):
    """A client that sends a request at once, as clients of TLS 1.3 do, reads the alert: the connection is not reset over it."""
    s, files, mutual = secured
    for port in (s.http_port, s.grpc_port, s.metrics_port) if mutual else ():
        for _ in range(20):
            context = files.context(False)
            context.set_alpn_protocols(["h2", "http/1.1"])
            with (
                socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as c,
                pytest.raises(ssl.SSLError, match="(?i)certificate.required"),
            ):
                c.sendall(bytes(65536))
                c.recv(1)


def test_client_without_certificate(secured):
    s, files, mutual = secured
    for port, path in ((s.http_port, "/v2/health/live"), (s.metrics_port, "/metrics")):
        if not mutual:
            assert get(s, port, path, files.context(False)) == 200
            continue
        with pytest.raises((ssl.SSLError, ConnectionError)):
            get(s, port, path, files.context(False))
    if mutual:
        c = grpcclient.InferenceServerClient(s.grpc, ssl=True, root_certificates=files.ca)
        with pytest.raises(grpcclient.InferenceServerException):
            c.is_server_live(client_timeout=5)
        c.close()


def test_old_protocols_are_refused(secured):
    s, files, mutual = secured
    context = files.context(mutual)
    with warnings.catch_warnings(action="ignore"):  # that it is deprecated is the point
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError):
        get(s, s.http_port, "/v2/health/live", context)


def test_renewed_certificate_is_served_without_restart(tmp_path):
    files = Files(tmp_path / "files")
    identity_model(tmp_path / "models", "m")
    with Server(tmp_path / "models", *files.options(False), wait=False) as s:
        wait_ready(s, files.context(False))
        ports = (s.http_port, s.grpc_port, s.metrics_port)
        before = [ssl.get_server_certificate(("127.0.0.1", p)) for p in ports]
        assert len(set(before)) == 1
        files.renew()
        for p in ports:  # the server looks once a second
            assert until(lambda p=p: ssl.get_server_certificate(("127.0.0.1", p)) != before[0]), s.log()
        assert get(s, s.http_port, "/v2/health/ready", files.context(False)) == 200


@pytest.mark.parametrize(
    "options, fault",
    [
        (["--grpc-use-ssl=true"], "--grpc-use-ssl needs --grpc-server-cert and --grpc-server-key"),
        (
            ["--grpc-use-ssl-mutual=true", "--grpc-server-cert=c", "--grpc-server-key=k"],
            "--grpc-use-ssl-mutual needs --grpc-root-cert",
        ),
        (["--http-tls-cert=c"], "--http-tls-cert and --http-tls-key go together"),
        (["--metrics-tls-client-ca=c"], "--metrics-tls-cert and --metrics-tls-key go together"),
        (["--http-tls-cert=/none/c", "--http-tls-key=/none/k"], "/none/c"),
        (["--grpc-use-ssl=true", "--grpc-server-cert=/none/c", "--grpc-server-key=/none/k"], "/none/c"),
    ],
)
def test_mistakes_name_option_or_file(tmp_path, options, fault):
    identity_model(tmp_path, "m")
    command = [
        BINARY,
        "serve",
        f"--model-repository={tmp_path}",
        *(f"--{n}-port=0" for n in ("http", "grpc", "metrics")),
        *options,
    ]
    r = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert r.returncode == 1 and fault in r.stderr, r
