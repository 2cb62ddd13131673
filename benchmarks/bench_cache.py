"""Resident memory of an informer's store with many pods, each size in a process of its own."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.pods import watch_line
from controller.kube.objects import Pod
from informers import Codec, SharedInformer

SIZES = (1_000, 10_000, 50_000)


def run() -> dict[str, float]:
    empty = _resident_mib(0)
    figures = {"MiB with no pods": empty}
    for size in SIZES:
        resident = _resident_mib(size)
        figures[f"MiB with {size:,} pods"] = resident
        figures[f"KiB a pod with {size:,} pods"] = (resident - empty) * 1024 / size
    return figures


def _resident_mib(size: int) -> float:
    command = [sys.executable, "-m", "benchmarks.bench_cache", str(size)]
    root = Path(__file__).parents[1]
    answer = subprocess.run(command, check=True, capture_output=True, cwd=root)
    return float(answer.stdout)


class _Pods:
    """A source that streams pods one by one, so that only the store holds them."""

    description = "generated pods"

    def __init__(self, size: int) -> None:
        self._size = size

    async def list(self, query: Mapping[str, str]) -> bytes:
        raise NotImplementedError(query)

    @asynccontextmanager
    async def watch(self, query: Mapping[str, str]) -> AsyncGenerator[AsyncIterator[bytes]]:
        del query  # always the same stream
        yield self._events()

    async def _events(self) -> AsyncIterator[bytes]:
        for number in range(self._size):
            yield watch_line(number) + b"\n"
        metadata = {
            "resourceVersion": "99000000",
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
        yield json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode() + b"\n"
        await asyncio.Event().wait()


async def _fill(size: int) -> float:
    informer = SharedInformer(
        "pods",
        _Pods(size),
        Codec(Pod),
        clock=asyncio.get_running_loop(),
        rng=random.Random(1),
        indexes={"owner": _owner},
    )
    run = asyncio.create_task(informer.run())
    await informer.wait_for_sync()
    gc.collect()
    resident = _own_resident_mib()
    run.cancel()
    await asyncio.wait([run])
    return resident


def _owner(pod: Pod) -> list[str]:
    owner = pod.metadata.controller
    return [owner.uid] if owner else []


def _own_resident_mib() -> float:
    status = Path("/proc/self/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    print(asyncio.run(_fill(int(sys.argv[1]))))
