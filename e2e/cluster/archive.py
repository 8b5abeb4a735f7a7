"""An image as `docker save` writes it, of files: for what `neso image build` refuses to make."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path


def packed(files: dict[str, bytes], mode: int = 0o755) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            t.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def write(file: Path, tag: str, files: dict[str, bytes], entrypoint: list[str], user: str = "65532") -> None:
    """An image that says it is for this machine's processor."""
    layer = packed(files)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": entrypoint, "User": user},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    content = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    file.write_bytes(packed(content, 0o644))
