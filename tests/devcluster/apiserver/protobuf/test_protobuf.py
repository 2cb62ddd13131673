"""Bodies in protobuf, which controller-runtime sends, on the embedded server and on a real one.

Both make of a body what they make of the same object in JSON: so field numbers and types are right.
"""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.apiserver.kinds.builtin import builtin_resources
from devcluster.apiserver.protobuf import MEDIA_TYPE, ProtobufError, decode_protobuf
from tests.devcluster.apiserver.protobuf.encoder import bytes_field, encode_protobuf
from tests.devcluster.apiserver.support import config_map, pod

OBJECTS = yaml.load(
    Path(__file__).with_name("builtin_objects.yaml").read_text(), Loader=yaml.CSafeLoader
)
BY_DEFAULT = f"{MEDIA_TYPE},application/json"
"""What client-go accepts."""


def without_nulls(value: Any) -> Any:
    """Protobuf has no nulls, and no difference between an empty list and none."""
    if isinstance(value, dict):
        clean = {key: without_nulls(item) for key, item in value.items()}
        return {key: item for key, item in clean.items() if item is not None and item != []}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def sample(entry: dict[str, Any], api: Any) -> tuple[str, dict[str, Any]]:
    """The path of a collection and an object for it, with a name of its own."""
    name = f"n{uuid.uuid4().hex[:8]}"
    text = json.dumps(entry).replace("NAMESPACE", api.namespace).replace("NAME", name)
    body = json.loads(text)
    plural, cluster_scoped = body.pop("plural"), body.pop("clusterScoped", False)
    metadata = {"name": body.pop("name", name), "labels": {"a": ""}, "finalizers": []}
    root = "/api/v1" if body["apiVersion"] == "v1" else f"/apis/{body['apiVersion']}"
    inner = "" if cluster_scoped else f"/namespaces/{api.namespace}"
    if not cluster_scoped:
        metadata["namespace"] = api.namespace
    return f"{root}{inner}/{plural}", body | {"metadata": metadata}


def test_each_built_in_kind_has_a_sample(embedded):
    known = {
        (resource.api_version, resource.kind)
        for resource in builtin_resources(embedded.server.store, None, None)
    }
    assert {(entry["apiVersion"], entry["kind"]) for entry in OBJECTS} == known


def made_alike(object_: Any) -> Any:
    """What two creations of the same body have in common."""
    own = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink"}
    text = json.dumps(without_nulls({k: v for k, v in object_.items() if k != "status"}))
    text = text.replace(object_["metadata"]["uid"], "UID")
    alike = json.loads(text)
    alike["metadata"] = {k: v for k, v in alike["metadata"].items() if k not in own}
    if object_["kind"] == "Service":
        del alike["spec"]["clusterIP"], alike["spec"]["clusterIPs"]
    return alike


@pytest.mark.parametrize("entry", OBJECTS, ids=lambda e: f"{e['apiVersion']} {e['kind']}")
async def test_an_object_in_protobuf_is_what_it_is_in_json(api, entry):
    path, body = sample(entry, api)
    tried = await api.create(path, body, dryRun="All")
    assert tried.status == 201, tried.body
    created = await api.call("POST", path, encode_protobuf(body), content_type=MEDIA_TYPE)
    assert created.status == 201, created.text
    assert made_alike(created.body) == made_alike(tried.body)
    one = f"{path}/{body['metadata']['name']}"
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    gone = await api.call("DELETE", one, encode_protobuf(options), content_type=MEDIA_TYPE)
    assert (gone.status, gone.body["kind"] in {"Status", entry["kind"]}) == (200, True)


async def test_delete_options_in_protobuf_count(api):
    await api.create(api.path("configmaps"), config_map("a"))
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "another"},
    }
    path = api.path("configmaps", "a")
    refused = await api.call("DELETE", path, encode_protobuf(options), content_type=MEDIA_TYPE)
    status = refused.body
    assert (refused.status, status["reason"], status["code"]) == (409, "Conflict", 409)


async def test_who_prefers_protobuf_and_takes_json_gets_json(embedded):
    await embedded.create(embedded.path("configmaps"), config_map("a", x="1"))
    one = await embedded.get(embedded.path("configmaps", "a"), accept=BY_DEFAULT)
    assert (one.headers["content-type"], one.body["data"]) == ("application/json", {"x": "1"})
    assert (await embedded.get(embedded.path("configmaps"), accept=MEDIA_TYPE)).status == 406


async def test_an_access_review_is_understood_in_protobuf(api):
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "a"}},
    }
    answer = await api.call(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        encode_protobuf(review),
        content_type=MEDIA_TYPE,
    )
    assert answer.body["status"]["allowed"] is True


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"k8s\x00",
        b"{}",
        b"k8s\x00\xff",
        b"k8s\x00" + b"\xff" * 20,
        b"k8s\x00\x0a\x02\x12\xff\x12\x00",
        encode_protobuf({"apiVersion": "v1", "kind": "ConfigMap"}).replace(
            b"ConfigMap", b"Nonsense!"
        ),
    ],
)
def test_what_is_no_protobuf_object_is_refused(body):
    with pytest.raises(ProtobufError):
        decode_protobuf(body)


def test_a_body_that_was_cut_off_is_refused_or_has_lost_its_end():
    body = encode_protobuf({"apiVersion": "v1", "kind": "Pod", **pod("a", labels={"x": "y"})})
    for end in range(len(body)):
        try:
            assert decode_protobuf(body[:end])["kind"] == "Pod"
        except ProtobufError:
            continue


def test_whatever_bits_are_wrong_it_is_decoded_or_refused():
    rng = random.Random(1)
    body = encode_protobuf({"apiVersion": "v1", "kind": "Pod", **pod("a", labels={"x": "y"})})
    for _ in range(2000):
        broken = bytearray(body)
        broken[rng.randrange(4, len(body))] ^= 1 << rng.randrange(8)
        try:
            decode_protobuf(bytes(broken))
        except ProtobufError:
            continue


def test_a_body_nested_too_deeply_is_refused():
    schema = b""
    for _ in range(4000):
        schema = bytes_field(28, schema)  # not
    version = bytes_field(1, b"v1") + bytes_field(4, bytes_field(1, schema))
    spec = bytes_field(2, bytes_field(7, version))
    kind = bytes_field(1, b"apiextensions.k8s.io/v1") + bytes_field(2, b"CustomResourceDefinition")
    with pytest.raises(ProtobufError, match="nested too deeply"):
        decode_protobuf(b"k8s\x00" + bytes_field(1, kind) + bytes_field(2, spec))
