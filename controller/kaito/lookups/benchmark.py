"""The measurement that a model server prints into its log when it starts.

The last line `KAITO_BENCHMARK_RESULT <time> <JSON>` counts, because the start is tried again after
a measurement that has failed; a line `KAITO_BENCHMARK_CONFIG` before it says what was measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import msgspec

from controller.kaito.api.status import cut
from controller.kaito.lookups.background import LookupFailed
from controller.kube.client import Client
from controller.kube.errors import KubeError
from controller.runtime.plan import Subscription

# Source of names and numbers: kaito-project/kaito at 056b8280,
# pkg/workspace/controllers/benchmark.go, presets/workspace/inference/vllm/benchmark_entrypoint.py.
_RESULT: Final = "KAITO_BENCHMARK_RESULT"
_CONFIG: Final = "KAITO_BENCHMARK_CONFIG"
_LINES: Final = 500
_BYTES: Final = 256 * 1024
"""Maximum bytes to read of a log."""

FAILED: Final = "BenchmarkFailed"


@dataclass(frozen=True, slots=True)
class BenchmarkLog(Subscription):
    """The log of one run of a model server, whose measurement is wanted.

    Attributes:
        restarts: how often it was started again; each start measures anew.
    """

    namespace: str
    pod: str
    uid: str
    container: str
    restarts: int = 0


class Measurement(msgspec.Struct, frozen=True):
    """The result of a benchmark.

    Attributes:
        tokens_per_minute: the peak, a number in words as Go prints it.
        config: what was measured; empty if the log does not say.
    """

    tokens_per_minute: str
    config: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class _Result(msgspec.Struct):
    vllm_total_tpm: float = 0.0


class _Config(msgspec.Struct):
    duration_sec: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    max_concurrency: int = 0


async def read_benchmark(client: Client, log: BenchmarkLog) -> Measurement:
    """Read the measurement from the end of a log.

    Raises:
        LookupFailed: the log cannot be read, or has none.
    """
    try:
        text = await client.for_flow(log.uid).read_log_tail(
            log.namespace, log.pod, container=log.container, lines=_LINES, limit_bytes=_BYTES
        )
    except KubeError as error:
        message = f"the log of pod {log.pod} cannot be read: {error}"
        raise LookupFailed(FAILED, cut(message)) from None
    return measurement(text, log.pod)


def measurement(text: str, pod: str) -> Measurement:
    """Return the last measurement in the log of a pod.

    Raises:
        LookupFailed: there is none, or it has failed.
    """
    result = config = ""
    for line in text.splitlines():
        result = _payload(line, _RESULT) or result
        config = _payload(line, _CONFIG) or config
    if not result:
        raise LookupFailed(FAILED, f"pod {pod}: there is no {_RESULT} in the end of its log")
    try:
        peak = msgspec.json.decode(result, type=_Result).vllm_total_tpm
    except msgspec.MsgspecError:
        message = cut(f"pod {pod}: the benchmark's result cannot be read: {result}")
        raise LookupFailed(FAILED, message) from None
    if not math.isfinite(peak) or peak <= 0:
        message = f"pod {pod}: the benchmark has failed, its result is {peak:g}"
        raise LookupFailed(FAILED, message)
    return Measurement(_in_words(peak), _read_config(config))


def _payload(line: str, tag: str) -> str:
    """Return the JSON behind a tag and a time; empty if the line is another one."""
    words = line.partition(tag)[2].split(maxsplit=1)
    return words[1].strip() if len(words) > 1 else ""


def _in_words(number: float) -> str:
    """Return the shortest digits that identify the number, without an exponent."""
    words = format(Decimal(repr(number)), "f")
    return words.rstrip("0").rstrip(".") if "." in words else words


def _read_config(payload: str) -> dict[str, str]:
    try:
        found = msgspec.json.decode(payload or "null", type=_Config | None)
    except msgspec.MsgspecError:
        return {}
    if found is None:
        return {}
    return {
        "durationSec": str(found.duration_sec),
        "inputTokens": str(found.input_tokens),
        "outputTokens": str(found.output_tokens),
        "maxConcurrency": str(found.max_concurrency),
    }
