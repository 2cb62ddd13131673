"""The codec on the round-trip data that Kubernetes publishes: an object of each kind, in full.

`MANTA_KUBERNETES_API` names a folder with the Go module `k8s.io/api`, which has the data in
`testdata/HEAD`: `core.v1.Pod.json` and `core.v1.Pod.pb` are the same object.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from devcluster.apiserver.builtin_types import table
from devcluster.apiserver.protobuf import decode_protobuf
from tests.devcluster.apiserver.protobuf.encoder import encode_protobuf

DATA = Path(os.environ.get("MANTA_KUBERNETES_API", "/nonexistent")) / "testdata" / "HEAD"
ANOTHER = "resource.k8s.io.v1.ResourceClaim.json"
"""Its kind is not built in; the name is that of a type in a pod's status."""

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="name the Go module k8s.io/api in MANTA_KUBERNETES_API"
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def test_each_kind_is_decoded_and_encoded_as_published():
    compared = 0
    for path in sorted(DATA.glob("*.v1.*.json")):
        in_json = json.loads(path.read_text())
        if in_json.get("kind") not in table() or path.name == ANOTHER:
            continue
        in_protobuf = path.with_suffix(".pb").read_bytes()
        assert without_nulls(decode_protobuf(in_protobuf)) == without_nulls(in_json), path.name
        assert encode_protobuf(in_json) == in_protobuf, path.name
        compared += 1
    assert compared >= 45
