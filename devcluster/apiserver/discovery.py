"""Discovery: what the server serves, its version and health, and the schemas in OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from devcluster.apiserver.builtin_types import ANY, Field, table
from devcluster.apiserver.messages import (
    ApiRequest,
    ApiResponse,
    bytes_response,
    json_response,
    plain_not_found,
)
from devcluster.apiserver.objects import Json, encode
from devcluster.apiserver.resources import SCALE, ApiResource, Registry

_SCALARS: dict[str, Json] = {
    **{any_: {"type": "object"} for any_ in ANY},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "double": {"type": "number", "format": "double"},
    "int-or-string": {"type": "string", "format": "int-or-string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "microtime": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "format": "date-time"},
}
_HEAD: Json = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}


def kind_schema(kind: str) -> Json:
    """Return the schema of a kind."""
    schema = _struct(kind)
    return schema | {"properties": _HEAD | schema["properties"]}


@cache
def referred_schemas(kind: str) -> Json:
    """Return the schemas of all types below a kind, by name."""
    found: Json = {}
    waiting = [_innermost(field.type) for field in table()[kind].values()]
    while waiting:
        name = waiting.pop()
        if name in table() and name not in found:
            found[name] = _struct(name)
            waiting += [_innermost(field.type) for field in table()[name].values()]
    return found


def _innermost(type_: str) -> str:
    return type_.strip("[]{}")


def _struct(name: str) -> Json:
    fields = table()[name].values()
    schema: Json = {"type": "object", "properties": {one.name: _field(one) for one in fields}}
    if required := [one.name for one in fields if one.required]:
        schema["required"] = required
    return schema


def _field(field: Field) -> Json:
    schema = _type(field.type)
    if field.map_keys:
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = list(field.map_keys)
    if field.merge_key:
        schema["x-kubernetes-patch-merge-key"] = field.merge_key
        schema["x-kubernetes-patch-strategy"] = "merge"
    return schema


def _type(type_: str) -> dict[str, Any]:
    if type_.startswith("["):
        return {"type": "array", "items": _type(type_[1:-1])}
    if type_.startswith("{"):
        return {"type": "object", "additionalProperties": _type(type_[1:-1])}
    if type_ in table():
        return {"allOf": [{"$ref": f"#/components/schemas/{type_}"}]}
    return dict(_SCALARS.get(type_, {"type": "string"}))


V2_MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
EMPTY_V2 = b"\x0a\x032.0"
"""An empty OpenAPI v2 document, which kubectl reads about kinds that v3 does not have."""

_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
    for name, kind in (
        ("dryRun", "string"),
        ("fieldManager", "string"),
        ("fieldValidation", "string"),
        ("force", "boolean"),
    )
]
_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)


def index(registry: Registry) -> Json:
    """Return the document that lists the others, one for each group version."""
    places = {_place(resource) for resource in registry}
    return {
        "paths": {
            place: {"serverRelativeURL": f"/openapi/v3/{place}?hash={registry.changes}"}
            for place in sorted(places)
        }
    }


def _place(resource: ApiResource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def document(registry: Registry, place: str) -> Json | None:
    """Return the document of one group version, None if nothing is served there."""
    resources = [resource for resource in registry if _place(resource) == place]
    if not resources:
        return None
    paths: Json = {}
    schemas: Json = {}
    for resource in resources:
        paths |= _paths(resource, place)
        schemas[_schema_name(resource)] = _schema(resource)
        if not resource.custom:
            schemas |= referred_schemas(resource.kind)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.34.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _paths(resource: ApiResource, place: str) -> Json:
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"/{place}{scope}/{resource.plural}"
    reference = {"$ref": f"#/components/schemas/{_schema_name(resource)}"}
    kind = {"x-kubernetes-group-version-kind": _kind(resource)}
    answer = {"200": {"content": {"application/json": {"schema": reference}}}}
    body = {"content": {"*/*": {"schema": reference}}}
    patch_body: Json = {"content": {media_type: {} for media_type in _PATCH_TYPES}}
    write = {"parameters": _PARAMETERS, "responses": answer} | kind
    return {
        collection: {
            "get": {"responses": answer, "x-kubernetes-action": "list"} | kind,
            "post": write | {"requestBody": body, "x-kubernetes-action": "post"},
        },
        f"{collection}/{{name}}": {
            "get": {"responses": answer, "x-kubernetes-action": "get"} | kind,
            "put": write | {"requestBody": body, "x-kubernetes-action": "put"},
            "patch": write | {"requestBody": patch_body, "x-kubernetes-action": "patch"},
            "delete": {"responses": answer, "x-kubernetes-action": "delete"} | kind,
        },
    }


def _kind(resource: ApiResource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema_name(resource: ApiResource) -> str:
    return ".".join(part for part in (resource.group, resource.version, resource.kind) if part)


def _schema(resource: ApiResource) -> Json:
    source = resource.strategy.openapi_schema() or kind_schema(resource.kind)
    return source | {"x-kubernetes-group-version-kind": [_kind(resource)]}


VERSION: Json = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.0+manta",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2025-08-27T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "any",
}
_HEALTH = {"/healthz", "/livez", "/readyz"}
_SUBRESOURCE_VERBS = {
    "status": ["get", "patch", "update"],
    "binding": ["create"],
    "eviction": ["create"],
    "exec": ["create", "get"],
    "finalize": ["update"],
    "log": ["get"],
    "portforward": ["create", "get"],
    "proxy": ["create", "delete", "get", "patch", "update"],
    "scale": ["get", "patch", "update"],
    "token": ["create"],
}
_SUBRESOURCE_KINDS: Mapping[str, Json] = {
    "scale": SCALE,
    # without it kubectl drain deletes pods, and asks no budget
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
}


class Discovery:
    """Answers requests that name no resource."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def answer(self, request: ApiRequest) -> ApiResponse:
        """Answer a request; 404 as plain text if there is nothing at its path."""
        path = request.path.rstrip("/") or "/"
        if path in _HEALTH:
            return bytes_response(200, b"ok", "text/plain; charset=utf-8")
        if path == "/version":
            return json_response(200, VERSION)
        if path in {"/api", "/apis"}:
            return self._root(path)
        if path.startswith("/openapi"):
            return self._openapi(path)
        found = self._group_or_version(path.strip("/").split("/"))
        return plain_not_found() if found is None else json_response(200, found)

    def _openapi(self, path: str) -> ApiResponse:
        if path == "/openapi/v2":
            return bytes_response(200, EMPTY_V2, V2_MEDIA_TYPE)
        if path == "/openapi/v3":
            return bytes_response(200, encode(index(self._registry)), "text/plain; charset=utf-8")
        found = document(self._registry, path.removeprefix("/openapi/v3/"))
        return plain_not_found() if found is None else json_response(200, found)

    def _group_or_version(self, parts: list[str]) -> Json | None:
        match parts:
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group]:
                return self._group(group)
            case ["apis", group, version]:
                return self._resources(group, version)
            case _:
                return None

    def _root(self, path: str) -> ApiResponse:
        if path == "/api":
            versions = {"kind": "APIVersions", "versions": ["v1"]}
            return json_response(200, versions | {"serverAddressByClientCIDRs": []})
        groups = [
            _group(group, versions) for group, versions in self._registry.groups().items() if group
        ]
        return json_response(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})

    def _group(self, name: str) -> Json | None:
        versions = self._registry.groups().get(name)
        if versions is None or not name:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1"} | _group(name, versions)

    def _resources(self, group: str, version: str) -> Json | None:
        resources = self._of(group, version)
        if not resources:
            return None
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": [entry for resource in resources for entry in _entries(resource)],
        }

    def _of(self, group: str, version: str) -> list[ApiResource]:
        return [
            resource
            for resource in self._registry
            if (resource.group, resource.version) == (group, version)
        ]


def _group(name: str, versions: list[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _entries(resource: ApiResource) -> list[Json]:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_other_names(resource),
    }
    return [entry] + [
        {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **_SUBRESOURCE_KINDS.get(name, {"kind": resource.kind}),
            "verbs": _SUBRESOURCE_VERBS[name],
        }
        for name in sorted(resource.subresources)
    ]


def _other_names(resource: ApiResource) -> Json:
    """Return short names and categories; clients expect no empty lists."""
    names = {"shortNames": resource.short_names, "categories": resource.categories}
    return {key: list(values) for key, values in names.items() if values}
