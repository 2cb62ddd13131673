"""Which writes predict each other's failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from controller.kube.resources import SECRETS
from controller.runtime.plan import Write
from controller.runtime.reconcile.execution import SlowStart
from tests.runtime.kit import create, delete, target


@pytest.mark.parametrize(
    ("failed", "is_held"),
    [
        (create("b"), True),
        (delete("b"), False),
        (replace(create("b"), target=target("b", "another scope")), False),
        (replace(create("b"), target=replace(target("b"), resource=SECRETS)), False),
    ],
    ids=["alike", "another verb", "another scope", "another resource"],
)
async def test_a_failure_holds_up_only_what_is_alike(failed: Write, *, is_held: bool):
    sent: list[Write] = []

    async def send(writes: Sequence[Write]) -> None:
        sent.extend(writes)

    slow_start = SlowStart({})
    slow_start.record_failure(failed)
    await slow_start.run([create("a")], send)
    assert sent == ([] if is_held else [create("a")])
