"""Discovery, version and health endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.discovery.openapi import (
    EMPTY_V2,
    V2_MEDIA_TYPE,
    document,
    index,
)
from controller.devcluster.apiserver.jsondata import encode
from controller.devcluster.apiserver.messages import (
    ApiResponse,
    bytes_response,
    json_response,
    plain_not_found,
)
from controller.devcluster.apiserver.protocol.negotiation import accepted
from controller.devcluster.apiserver.resources.scale_paths import SCALE

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.messages import ApiRequest
    from controller.devcluster.apiserver.resources.registry import Registry
    from controller.devcluster.apiserver.resources.resource import ApiResource

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
    "attach": ["create", "get"],
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
            return self._root(request, path)
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

    def _root(self, request: ApiRequest, path: str) -> ApiResponse:
        for entry in accepted(request.headers.get("accept", "")):
            if entry.form == "APIGroupDiscoveryList" and entry.parameters.get("v") == "v2":
                media_type = f"{entry.name};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
                body = self._aggregated(core=path == "/api")
                answer = json_response(200, body)
                answer.headers["content-type"] = media_type
                return answer
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

    def _aggregated(self, *, core: bool) -> Json:
        items: list[Json] = []
        for group, versions in self._registry.groups().items():
            if bool(group) is core:
                continue
            items.append(
                {
                    "metadata": {"name": group} if group else {},
                    "versions": [
                        {
                            "version": version,
                            "resources": [_aggregated(one) for one in self._of(group, version)],
                            "freshness": "Current",
                        }
                        for version in versions
                    ],
                }
            )
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }


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
            **(SCALE if name == "scale" else {"kind": resource.kind}),
            "verbs": _SUBRESOURCE_VERBS[name],
        }
        for name in sorted(resource.subresources)
    ]


def _other_names(resource: ApiResource) -> Json:
    """Return short names and categories; clients expect no empty lists."""
    names = {"shortNames": resource.short_names, "categories": resource.categories}
    return {key: list(values) for key, values in names.items() if values}


def _aggregated(resource: ApiResource) -> Json:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    entry: Json = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
        **_other_names(resource),
    }
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": SCALE if name == "scale" else kind,
                "verbs": _SUBRESOURCE_VERBS[name],
            }
            for name in sorted(resource.subresources)
        ]
    return entry
