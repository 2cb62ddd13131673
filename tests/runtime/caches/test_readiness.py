"""Why caches are incomplete or stale, in one sentence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controller.runtime.cache import OVERDUE, STALE, unready
from informers import ConnectionRefused


def cache(
    name: str = "pods",
    *,
    synced: bool = True,
    last_byte: float | None = 0.0,
    error: Exception | None = None,
    words: str = "",
) -> Any:
    seen = SimpleNamespace(description=name, last_byte=last_byte, last_error=words)
    informer = SimpleNamespace(has_synced=synced, statistics=lambda: seen)
    return SimpleNamespace(informer=informer, last_error=error)


def test_caches_that_are_not_complete_are_all_named():
    caches = [
        cache("pods", synced=False, error=ConnectionRefused("refused")),
        cache("jobs"),
        cache("secrets", synced=False),
    ]
    assert unready(caches, 0.0, 0.0) == (
        "cannot list pods: refused; cannot list secrets yet: no answer so far"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "pods: nothing heard for 901 s"),
        ("watch pods: reset", "pods: nothing heard for 901 s watch pods: reset"),
    ],
)
def test_a_cache_is_stale_after_a_quarter_of_an_hour_without_data(words: str, sentence: str):
    caches = [cache("new", last_byte=None), cache("pods", last_byte=100.0, words=words)]
    assert unready(caches, 0.0, 100.0 + STALE) is None
    assert unready(caches, 0.0, 101.0 + STALE) == sentence


def test_a_write_that_no_cache_shows_for_five_minutes_is_overdue():
    assert unready([cache()], OVERDUE, 0.0) is None
    assert unready([cache()], OVERDUE + 1, 0.0) == (
        "an own write has not been seen in the caches for 301 s"
    )
