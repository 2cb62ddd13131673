"""Prometheus collectors that compute their metrics from current state at each scrape.

Nothing is counted in advance, so no series outlives the object that it measures.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from controller.kube.objects import ObjectMeta

T = TypeVar("T")


class StateCollector(Collector, ABC, Generic[T]):
    """Metrics of one value; give it to `CollectorRegistry.register`."""

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read

    @abstractmethod
    def metrics(self, current: T, /) -> Iterable[Metric]:
        """Return the metrics of a value."""

    def describe(self) -> Iterable[Metric]:
        """Name nothing before the first scrape, so that registering reads nothing."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of the present value."""
        return self.metrics(self._read())


_IDENTITY: Final = ("name", "namespace", "uid")
"""Labels of a metric about one object, as KubeRay names them."""


def object_gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    """Return a gauge with a sample for each object, labelled with `identity` and these labels."""
    return GaugeMetricFamily(name, text, labels=[*_IDENTITY, *labels])


def identity(meta: ObjectMeta) -> list[str]:
    """Return the values of the labels that tell an object from any other."""
    return [meta.name, meta.namespace, meta.uid]


OBJECTS: Final = 25
"""Objects whose metrics are computed before the event loop may run again."""


class ObjectCollector(StateCollector[Iterable[T]]):
    """Metrics of all cached objects of a kind.

    An object with unexpected contents, from which no metric can be made, is left out.
    """

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of the present objects: every family once for `OBJECTS` objects.

        They are computed on demand, so a scrape can let others run between them.
        """
        objects = list(self._read())
        for start in range(0, max(1, len(objects)), OBJECTS):
            yield from self._sound_metrics(objects[start : start + OBJECTS])

    def _sound_metrics(self, objects: list[T]) -> list[Metric]:
        found = self._metrics(objects)
        if found is None:
            sound = [each for each in objects if self._metrics([each]) is not None]
            found = list(self.metrics(sound))
        return found

    def _metrics(self, objects: list[T]) -> list[Metric] | None:
        """Return the metrics, None if they cannot be made or written."""
        try:
            found = list(self.metrics(objects))
            for sample in (each for metric in found for each in metric.samples):
                _written(sample)
        except Exception:  # noqa: BLE001  whatever an object holds, the others have metrics
            return None
        return found

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples, with which a registry detects name clashes."""
        return self.metrics(())


def _written(sample: Sample) -> str:
    """Return the sample as text; raise an error if a label is None or the value is not a number."""
    return f"{''.join(sample.labels.values())} {float(sample.value)}"


# Writes all metrics of a registry as text, in slices between which the event loop runs.

SAMPLES: Final = 100
"""Samples that are written before the event loop runs again."""


async def write_metrics(registry: CollectorRegistry, encode: Callable[[Collector], bytes]) -> bytes:
    """Return the text of all metrics.

    A family that is collected in several parts of the same name is written as one. Families are
    read at different times, so they may show different moments.
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
