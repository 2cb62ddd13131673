"""The schema of a kind as a server publishes it (OpenAPI v3): the fields that objects may have.

Only what finding fields needs is decoded: no descriptions, formats or validation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, cast

import msgspec

from controller.kube.client import Client
from controller.kube.errors import UnexpectedResponse
from controller.kube.resources import Resource
from controller.kube.source import read_openapi_document

_REFERENCE = "#/components/schemas/"


class GroupVersionKind(msgspec.Struct, frozen=True, gc=False):
    """`x-kubernetes-group-version-kind`."""

    group: str = ""
    version: str = ""
    kind: str = ""


class SchemaNode(msgspec.Struct, frozen=True, gc=False):
    """One node of a schema. The many without properties share one dictionary."""

    reference: str = msgspec.field(default="", name="$ref")
    all_of: tuple[SchemaNode, ...] = msgspec.field(default=(), name="allOf")
    properties: dict[str, SchemaNode] = msgspec.field(default_factory=lambda: _NO_PROPERTIES)
    items: SchemaNode | None = None
    additional: SchemaNode | bool | None = msgspec.field(default=None, name="additionalProperties")
    enum: tuple[Any, ...] = ()
    preserves: bool = msgspec.field(default=False, name="x-kubernetes-preserve-unknown-fields")
    kinds: tuple[GroupVersionKind, ...] = msgspec.field(
        default=(), name="x-kubernetes-group-version-kind"
    )


_NO_PROPERTIES: Final[dict[str, SchemaNode]] = {}
_ANYTHING: Final = SchemaNode(preserves=True)


class _Components(msgspec.Struct, frozen=True):
    schemas: dict[str, SchemaNode] = msgspec.field(default_factory=dict[str, SchemaNode])


class _Document(msgspec.Struct, frozen=True):
    components: _Components = _Components()


class ObjectSchema(msgspec.Struct, frozen=True):
    """A node of a schema, and the named nodes that it may refer to."""

    node: SchemaNode
    named: Mapping[str, SchemaNode]

    @property
    def properties(self) -> Mapping[str, SchemaNode]:
        """The fields by name; empty for scalars, maps and nodes without a schema."""
        return self.node.properties

    @property
    def is_closed(self) -> bool:
        """True if objects can have no other fields than the properties."""
        node = self.node
        return bool(node.properties) and not node.preserves and not node.additional

    def field(self, name: str) -> ObjectSchema | None:
        """Return the schema of a field or of a map's value, None if there is none."""
        found = self.node.properties.get(name)
        if found is None and isinstance(self.node.additional, SchemaNode):
            found = self.node.additional
        return None if found is None else self._resolved(found)

    @property
    def items(self) -> ObjectSchema | None:
        """The schema of a list's items, None if this is not a list."""
        return None if self.node.items is None else self._resolved(self.node.items)

    def lacks(self, path: str) -> bool:
        """Return whether objects lose the field at `path`: `spec.workerGroupSpecs.numOfHosts`.

        Items of lists are not named in the path.
        """
        return self._at(path) is None

    def accepts(self, path: str, value: Any) -> bool:
        """Return whether objects keep the field at `path`, and it may have this value."""
        found = self._at(path)
        return found is not None and (not found.node.enum or value in found.node.enum)

    def nearest(self, path: str) -> str:
        """Return the known field beside `path` that was probably meant; empty if none is near."""
        parent, _, name = re.sub(r"\[[^\]]*\]", "", path).rpartition(".")
        beside = self._at(parent) if parent else self
        if beside is not None and beside.items is not None:
            beside = beside.items
        near = get_close_matches(name, beside.properties, n=1) if beside is not None else []
        return near[0] if near else ""

    def part(self, *names: str) -> ObjectSchema:
        """Return the schema of objects that have only these fields."""
        properties = {name: self.node.properties[name] for name in names}
        return ObjectSchema(SchemaNode(properties=properties), self.named)

    def _at(self, path: str) -> ObjectSchema | None:
        """Return the schema at a path: any object if all is preserved, None if dropped."""
        schema = self
        for name in path.split("."):
            if schema.items is not None:
                schema = schema.items
            found = schema.field(name)
            if found is None:
                keeps = schema.node.preserves or schema.node.additional is True
                return ObjectSchema(_ANYTHING, {}) if keeps else None
            schema = found
        return schema

    def _resolved(self, node: SchemaNode) -> ObjectSchema:
        return ObjectSchema(_resolve(node, self.named), self.named)


def parse_schemas(
    document: bytes, kinds: Collection[GroupVersionKind]
) -> dict[GroupVersionKind, ObjectSchema]:
    """Return the schemas in an OpenAPI v3 document, by the kinds that they describe.

    Raises:
        msgspec.DecodeError: this is not an OpenAPI document.
    """
    schemas = msgspec.json.decode(document, type=_Document).components.schemas
    return {
        kind: ObjectSchema(node, _reachable(node, schemas))
        for node in schemas.values()
        for kind in node.kinds
        if kind in kinds
    }


def _resolve(node: SchemaNode, named: Mapping[str, SchemaNode]) -> SchemaNode:
    """Return the node that a reference, alone or wrapped into `allOf`, refers to."""
    while node.reference or (len(node.all_of) == 1 and not node.properties):
        reference = node.reference or node.all_of[0].reference
        target = named.get(reference.removeprefix(_REFERENCE))
        if target is None:
            return SchemaNode()
        node = target
    return node


def _reachable(root: SchemaNode, schemas: Mapping[str, SchemaNode]) -> dict[str, SchemaNode]:
    found: dict[str, SchemaNode] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        name = node.reference.removeprefix(_REFERENCE)
        if name in schemas and name not in found:
            found[name] = schemas[name]
            waiting.append(schemas[name])
        waiting.extend(node.properties.values())
        waiting.extend(node.all_of)
        if node.items is not None:
            waiting.append(node.items)
        if isinstance(node.additional, SchemaNode):
            waiting.append(node.additional)
    return found


# Reads the schemas of resources from a server's OpenAPI v3 documents.


def by_document(resources: Iterable[Resource[Any]]) -> dict[str, list[Resource[Any]]]:
    """Group resources by the document that has their schemas: `api/v1`, `apis/ray.io/v1`."""
    documents: dict[str, list[Resource[Any]]] = {}
    for each in resources:
        name = f"apis/{each.api_version}" if each.group else f"api/{each.version}"
        documents.setdefault(name, []).append(each)
    return documents


async def read_schemas(
    client: Client, resources: Iterable[Resource[Any]], url: str
) -> dict[Resource[Any], ObjectSchema | None]:
    """Return the schemas of resources from the document at `url`; None where there is none.

    Raises:
        KubeError: the server gave no usable response.
    """
    kinds = {each: GroupVersionKind(each.group, each.version, each.kind) for each in resources}
    if not url:
        return dict.fromkeys(kinds)
    document = await read_openapi_document(client, url)
    try:
        found = parse_schemas(document, kinds.values())
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnexpectedResponse(f"GET {url}: {error}") from error
    return {each: found.get(kind) for each, kind in kinds.items()}


# Finds fields that a schema does not have: a server drops them without a message.


class UnknownField(msgspec.Struct, frozen=True):
    """A field that the schema lacks: its full path, and the field that was probably meant."""

    path: str
    nearest: str = ""

    def __str__(self) -> str:
        """Return `spec.nodeSelektor (did you mean nodeSelector?)`."""
        return f"{self.path} (did you mean {self.nearest}?)" if self.nearest else self.path


def unknown_fields(value: Any, schema: ObjectSchema, path: str) -> Iterator[UnknownField]:
    """Yield the fields of plain data that the schema does not have, in the order of the data."""
    if isinstance(value, list) and schema.items is not None:
        for position, item in enumerate(cast("list[Any]", value)):
            yield from unknown_fields(item, schema.items, f"{path}[{position}]")
    elif isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            below = schema.field(name)
            if below is not None:
                yield from unknown_fields(item, below, f"{path}.{name}")
            elif schema.is_closed and item is not None:
                nearest = get_close_matches(name, schema.properties, n=1)
                yield UnknownField(f"{path}.{name}", nearest[0] if nearest else "")
