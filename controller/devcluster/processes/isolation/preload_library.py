"""The preloaded library of mode "shim", compiled at first use."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from pathlib import Path

_SOURCE = Path(__file__).with_name("podnet.c")
_COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-shared", "-fPIC", "-O2")


def cache_folder() -> Path:
    """Return the cache directory of compiled libraries."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "manta"


async def build_library(cache: Path | None = None) -> Path:
    """Return the path of the library, which is compiled if it does not exist.

    Args:
        cache: folder; by default `cache_folder`.

    Raises:
        OSError: there is no C compiler, or it fails; the message says so.
    """
    source = _SOURCE.read_bytes()
    digest = hashlib.sha256(source + os.uname().machine.encode()).hexdigest()[:16]
    compiled = (cache or cache_folder()) / f"podnet-{digest}.so"
    if compiled.exists():
        return compiled
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise OSError("there is no C compiler (cc) on this machine: install one, gcc or clang")
    compiled.parent.mkdir(parents=True, exist_ok=True)
    new = compiled.with_suffix(f".{os.getpid()}")
    process = await asyncio.create_subprocess_exec(
        compiler,
        *_OPTIONS,
        "-o",
        str(new),
        str(_SOURCE),
        "-ldl",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    if process.returncode:
        raise OSError(f"{compiler} cannot compile podnet.c: {errors.decode(errors='replace')}")
    new.replace(compiled)
    return compiled
