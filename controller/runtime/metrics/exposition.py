"""Writes all metrics of a registry as text, in slices between which the event loop runs."""

from __future__ import annotations

import asyncio
from copy import copy
from typing import TYPE_CHECKING, Final

from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

SAMPLES: Final = 100
"""Samples that are written before the event loop runs again."""


async def write_metrics(registry: CollectorRegistry, encode: Callable[[Collector], bytes]) -> bytes:
    """Return the text of all metrics.

    A family that is collected in several parts of the same name is written as one. Families are
    read at different times, so they may show different moments.

    Args:
        registry: what to collect.
        encode: writes the families of a collector, each sample on a line of its own.
    """
    end = encode(_Families(()))
    texts: dict[str, list[bytes]] = {}
    for family in registry.collect():
        for part in _parts(family):
            text = encode(_Families((part,))).removesuffix(end)
            written = texts.setdefault(family.name, [])
            written.append(_without_header(text) if written else text)
            await asyncio.sleep(0)
    return b"".join(text for written in texts.values() for text in written) + end


class _Families(Collector):
    """A collector of families that exist already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _parts(family: Metric) -> Iterator[Metric]:
    """Yield the family in parts of at most `SAMPLES`; one part if it has none."""
    for start in range(0, max(1, len(family.samples)), SAMPLES):
        part = copy(family)
        part.samples = family.samples[start : start + SAMPLES]
        yield part


def _without_header(text: bytes) -> bytes:
    """Return the lines of samples, which follow those of help, type and unit."""
    while text.startswith(b"#"):
        text = text.partition(b"\n")[2]
    return text
