"""Any bytes, found by what they make the readers do: ``make fuzz``.

A coverage-guided fuzzer changes real files and hand-made ones and keeps what reaches
new code. Each input must give a run or one TraceError of one line, in bounded time and
memory; the first that does not is written down and ends it.
"""

from __future__ import annotations

import argparse
import gzip
import io
import pathlib
import sys
import tempfile
import zipfile

import atheris
import zstandard

with atheris.instrument_imports(include=["placement_viz"]):
    from placement_viz import Run, TraceError, parse_run

from tests.builders import CORPUS, TRACES, event, timeline

_LARGEST_SEED = 100_000
_LIMIT_BYTES = 2**22


def check(data: bytes) -> None:
    """Read ``data`` and see whether the readers keep their promise."""
    try:
        found = parse_run(data, source="fuzz", limit_bytes=_LIMIT_BYTES)
    except TraceError as error:
        found = str(error)
    if isinstance(found, str):
        assert "\n" not in found, found
        assert len(found) < 5_000, len(found)
    else:
        assert isinstance(found, Run)
        assert found.trace.ops.height


def write_seeds(folder: pathlib.Path) -> None:
    """Write what the fuzzer begins with: small files of every kind, packed and not."""
    files = [*TRACES.iterdir(), *(CORPUS.iterdir() if CORPUS.exists() else ())]
    small = [path for path in files if path.stat().st_size <= _LARGEST_SEED]
    for number, path in enumerate(small):
        (folder / str(number)).write_bytes(path.read_bytes())
    data = timeline(event("a"), event("b", inputs=["a"]), rows=("CPU:0", "GPU:0"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.json", data)
        archive.writestr("b.json.gz", gzip.compress(data))
    for name, content in {
        "gzip": gzip.compress(data),
        "zstd": zstandard.compress(data),
        "zip": packed.getvalue(),
        "log": b"mm: (MatMul): /job:localhost/replica:0/task:0/device:GPU:0\n",
    }.items():
        (folder / name).write_bytes(content)


def main() -> None:
    """Fuzz for as many seconds as are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=int, default=600)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_seeds(pathlib.Path(folder))
        options = (
            f"-max_total_time={arguments.seconds}",
            "-max_len=200000",
            "-timeout=20",
            "-rss_limit_mb=4096",
            "-print_final_stats=1",
            # Where a person finds it afterwards.
            f"-artifact_prefix={tempfile.gettempdir()}/",
        )
        atheris.Setup([sys.argv[0], *options, folder], check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
