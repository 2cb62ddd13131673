"""The rules for messages: each finds its fault, and none finds fault with good ones."""

from __future__ import annotations

import pytest

from tests.messages import faults

GOOD = (
    "head: pod a-head-x cannot pull the image of container ray-head: not found; correct it",
    "group workers: 0 of 2 pods exist; 2 are still being deleted (and 1 more like it)",
    'Internal error: failed to call webhook: Post "https://a.svc:443/x?timeout=10s": refused',
    'pods is forbidden: User "a:b" cannot create resource "pods" in API group "" of a: b',
    "a label must be alphanumeric (e.g. 'my-name',  or '123-abc', used is '[a-z0-9]*')",
    "Job failed, last logs:\nTypeError: x\n    at line 1",
    'use JSON such as {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}',
    "spec.limits[cpu]: '' is not a quantity like 500m, 1.5Gi or 2",
    "3 pods (a, b, ...) would be deleted because upgradeStrategy is None",
)


@pytest.mark.parametrize("text", GOOD)
def test_good_messages_have_no_fault(text: str):
    assert faults(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "containers with unready status: [ray-head]; ray-head: ",
        "cannot be scheduled:",
        "Multi-node inference is not supported: \ninvalid value",
        "invalid value: : tuning.Method",
        "cannot be created: ; the operator tries again",
        "the containers () are not ready",
        "see `` for more",
        "correct the image in the template of group , or set imagePullSecrets",
        "has ended (Evicted): The node was low on memory.; it is replaced",
        "no victims found for incoming pod., since 2026-01-01T00:00:00Z",
        "; the operator tries again",
        "pod  is not ready",
        " pod a is not ready",
        "the key <nil> is not supported",
        "refused by <__main__.Rule object at 0x7f5>",
        "fields ['a', 'b'] are missing",
        "last ended with {'code': 1}",
        "Ray says \x1b[31mfailed\x1b[0m",
        "Created {count} pods",
    ],
)
def test_a_fault_is_found(text: str):
    assert faults(text)
