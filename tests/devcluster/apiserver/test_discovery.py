"""Discovery, version, health and OpenAPI: what clients ask first; the resources served."""

from __future__ import annotations

import pytest

from controller.apimachinery.object_schema import GroupVersionKind, parse_schemas, unknown_fields
from devcluster.apiserver.resources import version_priority
from tests.devcluster.apiserver.definitions import definition

POD = GroupVersionKind("", "v1", "Pod")


async def test_health(api):
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await api.get(path)
        assert (answer.status, answer.text) == (200, b"ok")


async def test_version(api):
    answer = await api.get("/version")
    assert answer.body["major"] == "1"
    assert answer.body["gitVersion"].startswith("v")


async def test_groups_and_versions(api):
    assert (await api.get("/api")).body["versions"] == ["v1"]
    groups = {group["name"] for group in (await api.get("/apis")).body["groups"]}
    assert groups >= {"apps", "batch", "apiextensions.k8s.io", "events.k8s.io"}
    batch = (await api.get("/apis/batch")).body
    assert batch["kind"] == "APIGroup"
    assert batch["preferredVersion"] == {"groupVersion": "batch/v1", "version": "v1"}


async def test_resources_of_a_version(api):
    answer = (await api.get("/api/v1")).body
    assert (answer["kind"], answer["groupVersion"]) == ("APIResourceList", "v1")
    resources = {resource["name"]: resource for resource in answer["resources"]}
    pods = resources["pods"]
    assert (pods["kind"], pods["namespaced"], pods["shortNames"]) == ("Pod", True, ["po"])
    assert set(pods["verbs"]) == {
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    }
    assert resources["nodes"]["namespaced"] is False
    assert resources["pods/status"]["verbs"] == ["get", "patch", "update"]
    assert resources["pods/binding"]["verbs"] == ["create"]
    eviction = resources["pods/eviction"]
    found = (eviction["group"], eviction["version"], eviction["kind"])
    assert found == ("policy", "v1", "Eviction"), "else kubectl drain deletes pods"


async def test_openapi_says_that_patches_can_be_validated(api):
    answer = await api.get("/openapi/v3")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    index = answer.body["paths"]
    place = index["api/v1"]["serverRelativeURL"].partition("?")[0]
    document = (await api.get(place)).body
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Pod"
    assert "fieldValidation" in {parameter.get("name") for parameter in patch["parameters"]}


async def test_openapi_leads_from_pods_to_the_fields_of_their_containers(api):
    url = (await api.get("/openapi/v3")).body["paths"]["api/v1"]["serverRelativeURL"]
    document = (await api.get(url.partition("?")[0])).text
    pod = parse_schemas(document, {POD}).get(POD)
    assert pod is not None
    value = {"spec": {"nodeSelektor": {}, "containers": [{"imag": "x", "env": [{"nam": "a"}]}]}}
    assert [str(each) for each in unknown_fields(value, pod, "pod")] == [
        "pod.spec.nodeSelektor (did you mean nodeSelector?)",
        "pod.spec.containers[0].imag (did you mean image?)",
        "pod.spec.containers[0].env[0].nam (did you mean name?)",
    ]
    assert pod.lacks("spec.containers.imag")
    assert not pod.lacks("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution")


async def test_openapi_has_the_schemas_of_custom_resources(embedded):
    await embedded.define(definition("g.test.dev"))
    document = (await embedded.get("/openapi/v3/apis/g.test.dev/v1")).body
    (schema,) = document["components"]["schemas"].values()
    assert schema["properties"]["spec"]["properties"]["size"]["type"] == "integer"


async def test_what_is_not_served_is_not_found_whatever_the_client_accepts(api):
    answer = await api.get(api.path("configmaps", "a") + "/status", accept="text/html")
    assert (answer.status, answer.body["reason"]) == (404, "NotFound")


@pytest.mark.parametrize(
    "versions", [["v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1", "other"]]
)
def test_stable_and_newer_versions_come_first(versions):
    assert sorted(set(versions), key=version_priority) == versions
