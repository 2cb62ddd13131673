"""Decoding of the Kubernetes protobuf bodies that `kubectl create` sends.

`kubectl create namespace|configmap|secret|serviceaccount` and `kubectl auth can-i` know no other
encoding for what they send. Answers are always JSON, which they accept.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.devcluster.apiserver.jsondata import Json

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """The body is malformed, or of a kind that is not in the table."""


class Member(NamedTuple):
    """One field of a message.

    Attributes:
        name: name in JSON.
        type: `string`, `bytes`, `bool`, `int`, or the name of a message.
        shape: `one`, `list` or `map` (with string keys).
    """

    name: str
    type: str = "string"
    shape: str = "one"


_MESSAGES: dict[str, dict[int, Member]] = {
    "ObjectMeta": {
        1: Member("name"),
        2: Member("generateName"),
        3: Member("namespace"),
        5: Member("uid"),
        6: Member("resourceVersion"),
        11: Member("labels", shape="map"),
        12: Member("annotations", shape="map"),
        14: Member("finalizers", shape="list"),
    },
    "Namespace": {1: Member("metadata", "ObjectMeta")},
    "ConfigMap": {
        1: Member("metadata", "ObjectMeta"),
        2: Member("data", shape="map"),
        3: Member("binaryData", "bytes", "map"),
        4: Member("immutable", "bool"),
    },
    "Secret": {
        1: Member("metadata", "ObjectMeta"),
        2: Member("data", "bytes", "map"),
        3: Member("type"),
        4: Member("stringData", shape="map"),
        5: Member("immutable", "bool"),
    },
    "SelfSubjectAccessReview": {2: Member("spec", "SelfSubjectAccessReviewSpec")},
    "SelfSubjectAccessReviewSpec": {1: Member("resourceAttributes", "ResourceAttributes")},
    "ResourceAttributes": {
        1: Member("namespace"),
        2: Member("verb"),
        3: Member("group"),
        4: Member("version"),
        5: Member("resource"),
        6: Member("subresource"),
        7: Member("name"),
    },
    "ServiceAccount": {1: Member("metadata", "ObjectMeta")},
}


def decode_protobuf(body: bytes) -> Json:
    """Decode an object with its envelope.

    Raises:
        ProtobufError: malformed, or of another kind.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError("no Kubernetes protobuf object")
    type_meta: dict[int, bytes] = {}
    raw = b""
    for number, value in _fields(body[len(_MAGIC) :]):
        if number == 1:
            type_meta = {key: bytes(item) for key, item in _fields(bytes(value))}
        elif number == 2:
            raw = bytes(value)
    api_version = type_meta.get(1, b"").decode()
    kind = type_meta.get(2, b"").decode()
    if kind not in _MESSAGES:
        raise ProtobufError(f"{kind} is understood as JSON only: use kubectl apply with a file")
    return {"apiVersion": api_version, "kind": kind} | _message(kind, raw)


def _message(name: str, body: bytes) -> Json:
    members = _MESSAGES[name]
    result: Json = {}
    for number, value in _fields(body):
        member = members.get(number)
        if member is None:
            continue
        if member.shape == "map":
            entry = dict(_fields(bytes(value)))
            key = bytes(entry.get(1, b"")).decode()
            result.setdefault(member.name, {})[key] = _value(member.type, entry.get(2, b""))
        elif member.shape == "list":
            result.setdefault(member.name, []).append(_value(member.type, value))
        elif found := _value(member.type, value):
            result[member.name] = found
    return result


def _value(type_: str, value: bytes | int) -> Any:
    if isinstance(value, int):
        return bool(value) if type_ == "bool" else value
    if type_ == "string":
        return value.decode()
    if type_ == "bytes":
        return base64.b64encode(value).decode()
    return _message(type_, value)


def _fields(body: bytes) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(body):
        tag, position = _varint(body, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(body, position)
            yield number, value
            continue
        if wire == _BYTES:
            size, position = _varint(body, position)
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"wire type {wire}")
        if position + size > len(body):
            raise ProtobufError("unexpected end of message")
        yield number, body[position : position + size]
        position += size


def _varint(body: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(body):
            raise ProtobufError("unexpected end of message")
        byte = body[position]
        result |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return result, position
        shift += 7
