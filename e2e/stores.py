"""Object stores that run here: an S3 server (moto), emulators of Google's and Azure's storage."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

from server import ROOT, free_port

AZURITE = ROOT / ".tools" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
AZURE_ACCOUNT = "devstoreaccount1"
# The key that every emulator of Azure's storage has; it is public.
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Store:
    """A process that serves objects on a port of its own."""

    uri = ""
    env: dict = {}
    ok = (200, 201, 400, 403, 404)

    def __init__(self, directory: Path):
        self.port, self.directory, self.log = free_port(), directory, directory / "store.log"
        directory.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=subprocess.STDOUT, cwd=self.directory, stdin=subprocess.DEVNULL
            )
        end = time.monotonic() + 180
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()
            try:
                if self.request("GET", "/").status in self.ok:
                    return
            except OSError:
                pass
            time.sleep(0.05)  # polling another process: there is nothing to wait on
        raise RuntimeError(self.log.read_text())

    def request(self, method, path, body=b"", headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            r.content = r.read()
            return r
        finally:
            c.close()

    def upload(self, directory: Path, prefix: str = "") -> None:
        for path in sorted(directory.rglob("*")):
            name = prefix + path.relative_to(directory).as_posix()
            if path.is_file():
                self.put(name, path.read_bytes())
            elif not any(path.iterdir()):
                self.put(name + "/", b"")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class S3(Store):
    """moto, which checks signatures once there are keys."""

    bucket = "models"
    region = "eu-central-1"

    def command(self):
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    def start(self):
        super().start()
        import boto3  # it takes a while, and comes with moto

        self.auth(10_000)
        kw = {"endpoint_url": f"http://127.0.0.1:{self.port}", "region_name": self.region}
        kw |= {"aws_access_key_id": "setup", "aws_secret_access_key": "setup"}
        self.client = boto3.client("s3", **kw)
        self.client.create_bucket(Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": self.region})
        iam = boto3.client("iam", **kw)
        iam.create_user(UserName="neso")
        iam.put_user_policy(
            UserName="neso",
            PolicyName="read",
            PolicyDocument=(
                '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:GetObject","s3:ListBucket"],'
                '"Resource":"*"}]}'
            ),
        )
        key = iam.create_access_key(UserName="neso")["AccessKey"]
        self.key, self.secret = key["AccessKeyId"], key["SecretAccessKey"]
        self.env = {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": self.region,
        }
        self.uri = f"s3://http://127.0.0.1:{self.port}/{self.bucket}"

    def auth(self, free: int) -> None:
        """Makes the server check signatures after so many requests."""
        assert self.request("POST", "/moto-api/reset-auth", str(free).encode()).status == 200

    def put(self, name, data, **kw):
        self.client.put_object(Bucket=self.bucket, Key=name, Body=data, **kw)

    def delete(self, name):
        self.client.delete_object(Bucket=self.bucket, Key=name)


class GCS(Store):
    """The emulator takes no empty objects."""

    bucket = "models"

    def command(self):
        program = Path(sys.executable).with_name("gcp-storage-emulator")
        return [
            str(program), "start", "--host=127.0.0.1", f"--port={self.port}", "--in-memory", f"--default-bucket={self.bucket}",
        ]  # fmt: skip

    def start(self):
        super().start()
        self.env = {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{self.port}"}
        self.uri = f"gs://{self.bucket}"

    def put(self, name, data):
        quoted = urllib.parse.quote(name, safe="")
        r = self.request(
            "POST", f"/upload/storage/v1/b/{self.bucket}/o?uploadType=media&name={quoted}", data or b"\n",
            {"Content-Type": "application/octet-stream"},
        )  # fmt: skip
        assert r.status == 200, r.content

    def delete(self, name):
        self.request("DELETE", f"/storage/v1/b/{self.bucket}/o/" + urllib.parse.quote(name, safe=""))


class Azure(Store):
    container = "models"

    def command(self):
        return [
            shutil.which("node"), str(AZURITE.resolve()), "--blobHost", "127.0.0.1", "--blobPort", str(self.port),
            "--location", str(self.directory), "--skipApiVersionCheck", "--disableTelemetry",
        ]  # fmt: skip

    def start(self):
        super().start()
        self.env = {"AZURE_STORAGE_ACCOUNT": AZURE_ACCOUNT, "AZURE_STORAGE_KEY": AZURE_KEY}
        self.uri = f"as://http://127.0.0.1:{self.port}/{AZURE_ACCOUNT}/{self.container}"
        r = self.signed("PUT", "?restype=container")
        assert r.status in (201, 409), r.content

    def signed(self, method, path, body=b"", headers=None):
        h = {
            "x-ms-date": email.utils.formatdate(usegmt=True),
            "x-ms-version": "2021-08-06",
            **(headers or {}),
        }
        length = str(len(body)) if body else ""
        kind = h.get("Content-Type", "")
        own = "".join(f"{k}:{v}\n" for k, v in sorted(h.items()) if k.startswith("x-ms-"))
        where, _, query = path.partition("?")
        resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{self.container}{where}"
        resource += "".join(f"\n{k}:{v}" for k, v in sorted(urllib.parse.parse_qsl(query)))
        text = f"{method}\n\n\n{length}\n\n{kind}\n\n\n\n\n\n\n{own}{resource}"
        mac = hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()
        h["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(mac).decode()}"
        return self.request(method, f"/{AZURE_ACCOUNT}/{self.container}{path}", body, h)

    def put(self, name, data):
        headers = {"x-ms-blob-type": "BlockBlob", "Content-Type": "application/octet-stream"}
        r = self.signed("PUT", "/" + urllib.parse.quote(name), data, headers)
        assert r.status == 201, r.content

    def delete(self, name):
        self.signed("DELETE", "/" + urllib.parse.quote(name))


# Nothing of the machine's own configuration may reach a server under test.
CLEAN = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "GCE_METADATA_HOST": "127.0.0.1:1",
}
