"""OpenAPI v3 documents, enough for kubectl to know which validation the server offers.

kubectl sends `fieldValidation` only where a document says that PATCH of the kind takes it, and
`kubectl explain` reads the schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.fields.type_schemas import kind_schema, referred_schemas

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.resources.registry import Registry
    from controller.devcluster.apiserver.resources.resource import ApiResource

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
