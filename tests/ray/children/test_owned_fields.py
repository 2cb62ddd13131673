"""Owned fields of existing children: drift and its repair."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from controller.kube.objects import Pod
from controller.kube.resources import (
    CLAIMS,
    INGRESSES,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from controller.ray.api import RayCluster
from controller.ray.settings import granted
from controller.runtime.plan import Create, Delete, MergePatch, Plan, Replace, Write
from controller.testing.reads import FakeReads
from tests.fakes.verbs import needed
from tests.ray.cluster.children.test_children import EMBEDDED, SAMPLES, parts, sample
from tests.ray.cluster.support import UID, cache, cluster, head, plan, reads

Json = dict[str, Any]
OWNED_FIELDS = "manta.dev/owned-fields"


def stored(write: Create) -> Json:
    """A created child with the defaults that the server fills in."""
    body = copy.deepcopy(dict(write.body))
    body["metadata"] |= {"uid": f"uid-of-{write.target.name}", "resourceVersion": "7"}
    if write.target.resource is SERVICES:
        spec: Json = body["spec"]
        spec.setdefault("clusterIP", "10.0.0.7")
        spec |= {
            "clusterIPs": [spec["clusterIP"]],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
        }
        for position, port in enumerate(spec.get("ports", ())):
            port |= {"protocol": "TCP", "targetPort": port.get("targetPort", port["port"])}
            if spec["type"] != "ClusterIP":
                port["nodePort"] = 30000 + position
    if write.target.resource is CLAIMS:
        body["spec"] |= {"storageClassName": "standard", "volumeMode": "Filesystem"}
    return body


def existing(obj: RayCluster, **edits: Any) -> FakeReads:
    """A cache in which all children of the cluster exist, after edits by kind or name."""
    made = plan(reads(obj, served=SERVED))
    kept = reads(obj, served=SERVED)
    for write in (write for stage in made.stages for write in stage):
        if write.target.resource is PODS and "-head-" in write.target.name:
            assert isinstance(write, Create)
            kept.add(PODS, _running(write))
    for write in parts(made):
        assert isinstance(write, Create)
        body = stored(write)
        for key in (write.target.resource.kind, write.target.name):
            if key in edits:
                edits[key](body)
        resource: Resource[Any] = write.target.resource
        kept.add(resource, msgspec.convert(body, resource.view))
    return kept


def _running(write: Create) -> Pod:
    """The head as its plan creates it, once it runs."""
    body = copy.deepcopy(dict(write.body))
    made = msgspec.convert(body, Pod)
    ready = head(write.target.name)
    meta = msgspec.structs.replace(
        ready.metadata, labels=made.metadata.labels, annotations=made.metadata.annotations
    )
    return msgspec.structs.replace(ready, metadata=meta, spec=made.spec)


def changed(obj: RayCluster, **edits: Any) -> list[Write]:
    """Writes to the children after these edits."""
    return parts(plan(existing(obj, **edits)))


def only(writes: list[Write]) -> Any:
    (write,) = writes
    return write


EVERYTHING = sample(
    {"serve": 8000, "dashboard": 8265},
    annotations={"ray.io/enable-serve-service": "true", "a": "b"},
    headGroupSpec={"enableIngress": True},
    authOptions={"mode": "token"},
    gcsFaultToleranceOptions=EMBEDDED,
    enableInTreeAutoscaling=True,
    worker={"numOfHosts": 2},
    networkPolicy={"mode": "DenyAllIngress"},
)
SERVED: set[Resource[Any]] = {NETWORK_POLICIES}


@pytest.mark.parametrize("name", [*sorted(SAMPLES), "everything"])
def test_children_as_they_were_made_are_left_alone(name: str):
    obj = cluster(copy.deepcopy(SAMPLES.get(name, EVERYTHING)))
    made = plan(existing(obj))
    assert parts(made) == []
    assert made.events == ()
    assert made.requeue_after is None


def test_ports_are_put_right_by_name_under_the_revision_that_was_seen():
    obj = cluster(copy.deepcopy(SAMPLES["separate-ingress"]))

    def edit(body: Json) -> None:
        ports: list[Json] = body["spec"]["ports"]
        ports[0]["targetPort"] = 1
        del ports[1]
        ports.append({"name": "theirs", "port": 99, "protocol": "UDP", "targetPort": 99})

    write = only(changed(obj, Service=edit))
    assert write.resource_version == "7"
    client, *others = write.patch["spec"]["ports"]
    assert client == {
        "name": "client",
        "port": 10001,
        "targetPort": 10001,
        "protocol": "TCP",
        "appProtocol": "tcp",
        "nodePort": 30000,
    }
    assert [port["name"] for port in others] == ["gcs-server", "metrics", "theirs", "dashboard"]


def test_node_ports_go_with_the_type_that_has_them():
    def expose(body: Json) -> None:
        body["spec"] |= {"type": "NodePort", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}
        for port in body["spec"]["ports"]:
            port["nodePort"] = 30000

    made = plan(existing(cluster(sample()), Service=expose))
    write = only(parts(made))
    assert write.patch["spec"]["type"] == "ClusterIP"
    assert all("nodePort" not in port for port in write.patch["spec"]["ports"])
    (event,) = made.events
    assert event.reason == "FailedToUpdateService"
    assert "spec.clusterIP is 10.0.0.7, None is wanted, and it cannot be changed" in event.note


def test_what_cannot_be_changed_is_reported_once():
    obj = cluster(copy.deepcopy(SAMPLES["separate-ingress"]))

    def headless(body: Json) -> None:
        body["spec"] |= {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}
        for port in body["spec"]["ports"]:
            del port["nodePort"]

    kept = existing(obj, Service=headless)
    made = plan(kept)
    assert parts(made) == []
    (event,) = made.events
    assert made.status is not None
    told = with_conditions(obj, made)
    again = plan(cache(objects=kept.objects | {("rayclusters", "default/example"): told}))
    assert event.note in json.dumps(told.status)
    assert again.events == ()


def with_conditions(obj: RayCluster, made: Plan) -> RayCluster:
    assert made.status is not None
    return msgspec.structs.replace(obj, status=dict(made.status.wanted))


def test_keys_that_are_no_longer_wanted_are_removed_and_forgotten():
    wanted = {"headService": {"spec": {"sessionAffinity": "ClientIP"}}}
    before = cluster(
        sample(
            {"dashboard": 8265, "old": 7},
            headServiceAnnotations={"mine": "x"},
            headGroupSpec=wanted,
        )
    )
    kept = existing(before)
    after = cluster(sample({"dashboard": 8265}))
    kept.objects["rayclusters", "default/example"] = after
    (old,) = [key for key in kept.objects if key[0] == "pods"]
    del kept.objects[old]  # a port is listened on until its head goes
    write = only(parts(plan(kept)))
    metadata, spec = write.patch["metadata"], write.patch["spec"]
    assert metadata["annotations"]["mine"] is None
    remembered = json.loads(metadata["annotations"][OWNED_FIELDS])
    assert "old" not in remembered["ports"]
    assert spec["sessionAffinity"] is None
    assert [port["name"] for port in spec["ports"]] == ["dashboard", "metrics"]


@pytest.mark.parametrize(
    "spoilt", ["", "{", "[]", "3", '{"ports": 1}', '{"labels": null}', "[" * 2000]
)
def test_a_spoilt_memory_is_written_anew(spoilt: str):
    def spoil(body: Json) -> None:
        body["metadata"]["annotations"] = {OWNED_FIELDS: spoilt}

    write = only(changed(cluster(sample()), Service=spoil))
    assert write.patch.keys() == {"metadata"}
    assert write.patch["metadata"]["annotations"].keys() == {OWNED_FIELDS}


def test_addresses_that_were_asked_for_and_given_are_no_obstacle():
    spec = {"clusterIPs": ["None"], "clusterIP": "None", "ipFamilies": ["IPv4"]}
    obj = cluster(sample(headGroupSpec={"headService": {"spec": spec}}))
    assert plan(existing(obj)).events == ()
    obj = cluster(sample(headGroupSpec={"headService": {"spec": spec | {"ipFamilies": ["IPv6"]}}}))
    (event,) = plan(existing(obj)).events
    assert "spec.ipFamilies is IPv4, IPv6 is wanted" in event.note


def test_each_resource_is_changed_by_the_verbs_that_kuberay_grants():
    def unlabel(body: Json) -> None:
        body["metadata"]["labels"] = {}

    def empty(body: Json) -> None:
        body |= {"rules": None} if body["kind"] == "Role" else {"subjects": None}

    obj = cluster(copy.deepcopy(EVERYTHING))
    kinds = ("Service", "Ingress", "NetworkPolicy", "Secret", "ServiceAccount")
    edits = dict.fromkeys(kinds, unlabel) | {"Role": empty, "RoleBinding": empty}
    by_resource = {write.target.resource: type(write) for write in changed(obj, **edits)}
    assert by_resource == {
        SERVICES: MergePatch,
        INGRESSES: MergePatch,
        NETWORK_POLICIES: Replace,
        SECRETS: Replace,
        ROLES: Replace,
        ROLE_BINDINGS: Delete,  # and recreated; a service account cannot be changed at all
    }
    assert SERVICE_ACCOUNTS not in by_resource


@pytest.mark.parametrize("name", [*sorted(SAMPLES), "everything"])
def test_no_plan_needs_more_than_kuberays_cluster_role(name: str):
    obj = cluster(copy.deepcopy(SAMPLES.get(name, EVERYTHING)))

    def spoil(body: Json) -> None:
        body["metadata"]["labels"] = {}
        for key in ("rules", "subjects"):
            if key in body:
                body[key] = None

    kinds = ("Service", "Ingress", "Secret", "Role", "RoleBinding", "ServiceAccount", "Route")
    kinds = (*kinds, "NetworkPolicy")
    fresh = plan(reads(obj, served=SERVED))
    broken = plan(existing(obj, **dict.fromkeys(kinds, spoil)))
    for made in (fresh, broken):
        for write in [write for stage in made.stages for write in stage] + list(made.independent):
            assert needed(write) <= granted(write.target.resource), str(write.target)


def test_an_adopted_claim_gets_an_owner_beside_those_it_has():
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}

    def orphan(body: Json) -> None:
        body["metadata"]["ownerReferences"] = [other]

    write = only(
        changed(cluster(copy.deepcopy(SAMPLES["embedded-gcs-ft"])), PersistentVolumeClaim=orphan)
    )
    first, ours = write.patch["metadata"]["ownerReferences"]
    assert first == other
    assert (ours["uid"], ours["controller"]) == (UID, True)
    assert write.resource_version == "7"


def test_a_child_with_a_pending_write_is_neither_created_nor_changed_nor_deleted():
    def unlabel(body: Json) -> None:
        body["metadata"]["labels"] = {}

    kept = existing(cluster(copy.deepcopy(SAMPLES["ingress"])), Ingress=unlabel)
    assert len(parts(plan(kept))) == 1
    kept.pending = frozenset({"Ingress example-head-ingress"})
    assert parts(plan(kept)) == []
    kept.objects["rayclusters", "default/example"] = cluster(sample())
    assert parts(plan(kept)) == []
    kept.pending = frozenset()
    assert isinstance(only(parts(plan(kept))), Delete)


@pytest.mark.parametrize("maker", ["RayCluster", "RayService"])
def test_only_the_clusters_own_serve_service_goes_with_the_annotation(maker: str):
    def relabel(body: Json) -> None:
        body["metadata"]["labels"]["ray.io/originated-from-crd"] = maker

    kept = existing(
        cluster(copy.deepcopy(SAMPLES["serve-service"])), **{"example-serve-svc": relabel}
    )
    kept.objects["rayclusters", "default/example"] = cluster(
        sample({"serve": 8000, "serve-grpc": 9000})
    )
    deleted = [write.target.name for write in parts(plan(kept)) if isinstance(write, Delete)]
    assert deleted == (["example-serve-svc"] if maker == "RayCluster" else [])


def test_a_part_that_is_being_deleted_is_waited_for():
    def going(body: Json) -> None:
        body["metadata"] |= {"deletionTimestamp": "2026-08-20T09:59:00Z", "labels": {}}

    obj = cluster(copy.deepcopy(EVERYTHING))
    kinds = ("Service", "Ingress", "Secret", "Role", "RoleBinding")
    assert changed(obj, **dict.fromkeys(kinds, going)) == []
