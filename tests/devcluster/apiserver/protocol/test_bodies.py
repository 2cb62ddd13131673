"""Bodies that are no JSON and no YAML of an object."""

from __future__ import annotations

import pytest

from devcluster.apiserver.messages import decode
from devcluster.apiserver.status import ApiError


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("application/json", b"["),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"a": "\xff"}'),
        ("application/yaml", b"a: ["),
        ("application/yaml", b"- " * 20_000),
        ("application/yaml", b"a: &a [*a]"),
        ("application/yaml", b"? null\n: 1"),
        ("application/yaml", b"a: !!int b"),
        ("application/yaml", b"a: " + b"9" * 5000),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_what_cannot_be_decoded_is_a_bad_request(media_type: str, body: bytes):
    with pytest.raises(ApiError, match="json parse error") as raised:
        decode(body, media_type)
    assert raised.value.code == 400
