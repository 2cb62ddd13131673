"""What is known of one informer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controller.kube.resources import PODS
from controller.runtime.caches.cache import Cache, CacheScope
from informers import ConnectionRefused, Undecodable


def cache(**quarantined: Undecodable) -> Any:
    informer: Any = SimpleNamespace(quarantined=quarantined)
    barrier: Any = None
    return Cache(CacheScope(PODS), informer, barrier)


def odd(key: str, reason: str) -> Undecodable:
    return Undecodable(key, "u", "1", reason)


def test_each_object_that_cannot_be_decoded_is_new_once_for_each_reason():
    known = cache(a=odd("a", "phase"), b=odd("b", "phase"))
    present = known.informer.quarantined
    assert known.newly_quarantined() == [odd("a", "phase"), odd("b", "phase")]
    assert known.newly_quarantined() == []
    present["a"] = odd("a", "spec")
    assert known.newly_quarantined() == [odd("a", "spec")]
    del present["a"], present["b"]
    assert known.newly_quarantined() == []
    present["b"] = odd("b", "phase")
    assert known.newly_quarantined() == [odd("b", "phase")], "again, after it was well"


def test_the_last_error_is_kept_without_its_frames():
    known = cache()
    with pytest.raises(ConnectionRefused) as raised:
        raise ConnectionRefused("refused") from OSError("no route")
    known.note_error(raised.value)
    kept = known.last_error
    assert str(kept) == "refused"
    assert (kept.__traceback__, kept.__cause__, kept.__context__) == (None, None, None)
