"""Metrics that are computed from the present objects at each scrape."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily

from controller.kube.objects import ObjectMeta
from controller.runtime.collectors import ObjectCollector, identity, object_gauge


def test_a_gauge_of_objects_tells_them_apart_by_name_namespace_and_uid():
    family = object_gauge("widget_size", "Size of a widget", "colour")
    family.add_metric([*identity(ObjectMeta(name="f", namespace="default", uid="u")), "red"], 3)
    (sample,) = family.samples
    assert (family.name, family.documentation) == ("widget_size", "Size of a widget")
    assert sample.labels == {"name": "f", "namespace": "default", "uid": "u", "colour": "red"}


class Sizes(ObjectCollector[int]):
    """One gauge of the size of each object; remembers of which objects at once."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__(lambda: sizes)
        self.asked: list[list[int]] = []

    def metrics(self, current: Iterable[int], /) -> list[GaugeMetricFamily]:
        self.asked.append([*current])
        family = GaugeMetricFamily("size", "Size", labels=["name"])
        for size in self.asked[-1]:
            family.add_metric([str(size)], size)
        return [family]


def test_the_metrics_of_objects_without_a_fault_are_made_at_once():
    sizes = Sizes([2, 4, 6])
    (family,) = sizes.collect()
    assert [sample.value for sample in family.samples] == [2, 4, 6]
    assert sizes.asked == [[2, 4, 6]]


def test_without_objects_each_family_is_named_all_the_same():
    (family,) = Sizes([]).collect()
    assert (family.name, family.samples) == ("size", [])
