"""The real Triton to compare with: the tritonserver that lies in the wheel of nvidia-pytriton.

The wheel needs a glibc of 2.35 or newer. Its Python stub takes the first python3 on PATH and loads the system's
libpython, so the venv must be one of Debian's own python3.11 (packages python3.11-venv and libpython3.11).
"""

import pathlib
import shutil
import subprocess

VERSION = "0.7.0"
TRITON = "Triton 2.51.0 (24.10)"
INTERPRETER = "/usr/bin/python3.11"


class PeerMissing(Exception):
    pass


class Peer:
    """A venv with the wheel, and the command line that starts the server out of it."""

    def __init__(self, venv):
        self.venv = pathlib.Path(venv).absolute()
        self.python = self.venv / "bin" / "python"
        if self.python.exists() and self.python.resolve() != pathlib.Path(INTERPRETER).resolve():
            raise PeerMissing(
                f"{self.venv} is a venv of {self.python.resolve()}; the real Triton loads the system's libpython, "
                f"so it must be one of {INTERPRETER}: models do not start else"
            )
        packages = sorted(self.venv.glob("lib/python3*/site-packages"))
        if not packages or not (packages[-1] / "pytriton" / "tritonserver" / "bin" / "tritonserver").exists():
            raise PeerMissing(f"{self.venv} has no nvidia-pytriton")
        self.libraries = packages[-1] / "nvidia_pytriton.libs"
        self.home = packages[-1] / "pytriton" / "tritonserver"
        self.interpreter = packages[-1].parent.name.removeprefix("python")

    def backends(self, directory):
        """A backend directory that has the Python stub beside the backend, where Triton looks for it."""
        target = pathlib.Path(directory) / "python"
        if not (target / "triton_python_backend_stub").exists():
            shutil.copytree(self.home / "backends" / "python", target, dirs_exist_ok=True)
            stub = self.home / "python_backend_stubs" / self.interpreter / "triton_python_backend_stub"
            shutil.copy(stub, target / stub.name)
            (target / stub.name).chmod(0o755)
        return target.parent

    def command(self, backends):
        return [
            str(self.home / "bin" / "tritonserver"),
            f"--backend-directory={backends}",
            f"--cache-directory={self.home / 'caches'}",
        ]

    def environment(self, base):
        env = dict(base)
        env["PATH"] = f"{self.venv / 'bin'}:{env.get('PATH', '')}"
        libraries = [str(self.libraries), env.get("LD_LIBRARY_PATH", "")]
        env["LD_LIBRARY_PATH"] = ":".join(part for part in libraries if part)
        return env


def find_or_make(named, default):
    """The venv that the caller named (PEER), else the one under default, made if it is missing."""
    if named:
        return Peer(named)
    try:
        return Peer(default)
    except PeerMissing:
        pass
    if not pathlib.Path(INTERPRETER).exists():
        raise PeerMissing(
            f"the real Triton needs {INTERPRETER} (Debian: python3.11-venv, libpython3.11); "
            "name a venv that has it by PEER=VENV, or compare with nothing by --no-peer"
        )
    print(f"making {default} with nvidia-pytriton {VERSION} (once)", flush=True)
    try:
        subprocess.run([INTERPRETER, "-m", "venv", str(default)], check=True)
        pip = pathlib.Path(default) / "bin" / "pip"
        subprocess.run([str(pip), "install", "--quiet", f"nvidia-pytriton=={VERSION}"], check=True)
    except subprocess.CalledProcessError as error:
        raise PeerMissing(f"making the peer's venv failed: {error}") from error
    return Peer(default)
