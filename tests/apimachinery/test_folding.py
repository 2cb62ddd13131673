"""Texts that mean the same have the same fold."""

from __future__ import annotations

import pytest

from controller.apimachinery.redaction import fold


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("request 17 failed", "request 4093 failed"),
        (
            "id 6ba7b810-9dad-11d1-80b4-00c04fd430c8: no",
            "id ffffffff-aaaa-1bbb-cccc-dddddddddddd: no",
        ),
        ("trace deadbeefcafe", "trace 0123456789ab"),
        ("dial tcp 10.0.3.7:41234: refused", "dial tcp 10.11.0.200:9: refused"),
        ("dial tcp [fe80::1]:80", "dial tcp [2001:db8::ff00:42:8329]:443"),
        ("at 2026-01-01T00:00:07Z", "at 2027-11-30T23:59:59.123456+02:00"),
        ("after 1m3.5s", "after 10s"),
    ],
)
def test_what_varies_is_folded(one: str, other: str):
    assert fold(one) == fold(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cannot create pods", "cannot delete pods"),
        ('webhook "a.example.com"', 'webhook "b.example.com"'),
        ("limits.cpu: exceeded", "limits.memory: exceeded"),
    ],
)
def test_what_names_something_is_kept(one: str, other: str):
    assert fold(one) != fold(other)
