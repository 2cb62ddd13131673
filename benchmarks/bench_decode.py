"""Memory of a cached pod: partial Structs against dictionaries and kubernetes_asyncio's models.

Pods of about 8 kB, one watch event each, as an informer reads them. The informer spends as much
time again on sharing equal parts between pods, which leaves a third of the memory; both are shown.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
from kubernetes_asyncio.client import ApiClient

from benchmarks.pods import pod, watch_line
from controller.kube.objects import Pod
from informers import Codec

COUNT = 400
ROUNDS = 3


class _Event(msgspec.Struct):
    object: Pod


def run() -> dict[str, float]:
    return asyncio.run(_run())


async def _run() -> dict[str, float]:
    lines = [watch_line(number) for number in range(COUNT)]
    client: Any = ApiClient()
    try:
        decoders: dict[str, Callable[[bytes], Any]] = {
            "Struct": Codec(Pod).event,
            "Struct, nothing shared": msgspec.json.Decoder(_Event).decode,
            "json.loads": json.loads,
            "kubernetes_asyncio": lambda line: _model(client, line),
        }
        seconds = {name: _seconds_a_pod(decode, lines) for name, decode in decoders.items()}
        memory = {name: _bytes_a_pod(decode, lines) for name, decode in decoders.items()}
    finally:
        await client.close()
    figures = {
        "bytes of a pod on the wire": len(json.dumps(pod(1), separators=(",", ":"))),
        "Struct: microseconds a pod": seconds["Struct"] * 1e6,
        "Struct: bytes kept a pod": memory["Struct"],
    }
    for other in ("Struct, nothing shared", "json.loads", "kubernetes_asyncio"):
        figures[f"{other}: times the time"] = seconds[other] / seconds["Struct"]
        figures[f"{other}: times the memory"] = memory[other] / memory["Struct"]
    return figures


def _model(client: Any, line: bytes) -> Any:
    """Decode an event as kubernetes_asyncio's watch does, which keeps the raw object as well."""
    event = json.loads(line)
    response = SimpleNamespace(data=json.dumps(event["object"]))
    return event, client.deserialize(response, "V1Pod")


def _seconds_a_pod(decode: Callable[[bytes], Any], lines: list[bytes]) -> float:
    """CPU time of the best round; what was decoded is kept, so the collector has its work."""
    best = float("inf")
    for _ in range(ROUNDS):
        kept: list[Any] = []
        gc.collect()
        began = time.process_time()
        kept.extend(decode(line) for line in lines)
        best = min(best, time.process_time() - began)
    return best / len(lines)


def _bytes_a_pod(decode: Callable[[bytes], Any], lines: list[bytes]) -> float:
    decode(lines[0])
    gc.collect()
    tracemalloc.start()
    try:
        kept = [decode(line) for line in lines]
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return used / len(kept)
