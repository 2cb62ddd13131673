"""Which caches are awaited after a sign that the server went back in time (EXP-45)."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.runtime.caches.rewind import Rewind


@dataclass(eq=False)
class Watched:
    """A cache, and the signs for which it was listed again."""

    name: str
    signs: list[str] = field(default_factory=list[str])
    quorum_read: float | None = None

    @property
    def informer(self) -> Any:
        return SimpleNamespace(
            name=self.name, relist=self.signs.append, quorum_read=self.quorum_read
        )


class Bench:
    """Caches of which some are awaited, and what was held and resumed."""

    def __init__(self, *names: str) -> None:
        self.now = 100.0
        self.caches: list[Any] = [Watched(name) for name in names]
        self.said: list[str] = []
        self.rewind = Rewind(
            lambda: self.caches,
            now=lambda: self.now,
            on_begin=lambda: self.said.append("held"),
            on_end=lambda: self.said.append("resumed"),
        )

    def read(self, cache: Any, began: float | None) -> None:
        cache.quorum_read = began
        self.rewind.advanced(cache)


def test_all_caches_are_listed_again_but_the_one_that_gave_the_sign():
    bench = Bench("pods", "nodes", "widgets")
    pods, nodes, widgets = bench.caches
    with capture_logs() as logs:
        bench.rewind.sign("widgets went back", read=widgets)
    assert [each.signs for each in bench.caches] == [["widgets went back"]] * 2 + [[]]
    assert bench.rewind.awaited == [pods, nodes]
    assert bench.said == ["held"]
    assert logs == [
        {
            "event": "plans.held",
            "sign": "widgets went back",
            "caches": ["nodes", "pods"],
            "log_level": "warning",
        }
    ]


def test_nothing_is_held_for_an_only_cache_that_was_read():
    bench = Bench("widgets")
    with capture_logs() as logs:
        bench.rewind.sign("widgets went back", read=bench.caches[0])
    assert (bench.rewind.awaited, bench.said, logs) == ([], [], [])


def test_plans_resume_once_each_cache_was_read_and_it_is_logged_how_long_they_were_held():
    bench = Bench("pods", "nodes")
    pods, nodes = bench.caches
    bench.rewind.sign("an answer")
    bench.now = 105.25
    bench.read(pods, 101.0)
    assert (bench.rewind.awaited, bench.said) == ([nodes], ["held"])
    with capture_logs() as logs:
        bench.read(nodes, 101.0)
        bench.read(nodes, 102.0)
    assert (bench.rewind.awaited, bench.said) == ([], ["held", "resumed"])
    assert logs == [{"event": "plans.resumed", "seconds": 5.2, "log_level": "info"}]


@pytest.mark.parametrize(
    ("began", "counts"), [(None, False), (99.9, False), (100.0, True), (100.1, True)]
)
def test_only_a_quorum_read_that_began_since_the_sign_counts(began: float | None, *, counts: bool):
    bench = Bench("pods", "nodes")
    bench.rewind.sign("an answer")
    bench.read(bench.caches[0], began)
    assert (bench.caches[0] not in bench.rewind.awaited) is counts


def test_the_same_news_lists_nothing_twice():
    bench = Bench("pods", "nodes", "widgets")
    pods, nodes, widgets = bench.caches
    bench.rewind.sign("an answer")
    bench.rewind.sign("another answer")
    bench.rewind.sign("nodes went back", read=nodes)
    assert [each.signs for each in bench.caches] == [["an answer"]] * 3
    assert bench.rewind.awaited == [pods, widgets]
    assert bench.said == ["held"]


def test_a_cache_that_was_read_and_goes_back_once_more_begins_it_anew():
    bench = Bench("pods", "nodes")
    pods, nodes = bench.caches
    bench.rewind.sign("nodes went back", read=nodes)
    bench.now = 110.0
    bench.rewind.sign("nodes went back again", read=nodes)
    assert pods.signs == ["nodes went back", "nodes went back again"]
    bench.read(pods, 105.0)
    assert bench.rewind.awaited == [pods], "it was read between the two"
    with capture_logs() as logs:
        bench.read(pods, 110.0)
    assert logs[0]["seconds"] == 10.0
    assert bench.said == ["held", "resumed"]


def test_a_cache_that_is_gone_is_not_waited_for():
    bench = Bench("pods", "nodes")
    pods, nodes = bench.caches
    bench.rewind.forget(pods)
    assert bench.said == []
    bench.rewind.sign("an answer")
    bench.rewind.forget(pods)
    assert (bench.rewind.awaited, bench.said) == ([nodes], ["held"])
    bench.rewind.forget(nodes)
    assert bench.said == ["held", "resumed"]
