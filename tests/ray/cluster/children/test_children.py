"""Everything that a cluster has besides pods, against golden files written from the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from controller.apimachinery.metadata import ownership_text
from controller.kube.resources import (
    CLAIMS,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    ROUTES,
    SECRETS,
    SERVICES,
)
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.child_table import child_events
from controller.ray.cluster.children import Note
from controller.ray.cluster.conditions import ClusterConditions
from controller.ray.cluster.plan import BLOCKED_RETRY
from controller.ray.settings import RaySettings
from controller.runtime.plan import Create, Delete, Plan, Write
from tests.ray.cluster.support import (
    NOW,
    UID,
    cluster,
    manifest,
    meta,
    owner,
    plan,
    reads,
    seen_with,
    with_meta,
    writes,
)

GOLDEN = Path(__file__).parent / "golden"
OWNED_FIELDS = "manta.dev/owned-fields"
TOKEN = "not for anybody's eyes"
STANDARD = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}
EMBEDDED: dict[str, Any] = {"backend": "rocksdb", "storage": {"size": "1Gi"}}


def parts(made: Plan) -> list[Write]:
    all_writes = [write for stage in made.stages for write in stage] + list(made.independent)
    return [write for write in all_writes if write.target.resource.kind != "Pod"]


def bodies(raw: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Bodies of the parts that a new cluster gets, without the keys that we remember."""
    made = plan(reads(cluster(raw), **more))
    found: list[dict[str, Any]] = []
    for write in parts(made):
        assert isinstance(write, Create)
        metadata = dict(write.body["metadata"])
        annotations = dict(metadata.pop("annotations", {}))
        annotations.pop(OWNED_FIELDS, None)
        found.append(
            {
                **write.body,
                "metadata": metadata | ({"annotations": annotations} if annotations else {}),
            }
        )
    return found


def sample(ports: dict[str, int] | None = None, **spec: Any) -> dict[str, Any]:
    raw = manifest()
    raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["ports"] = [
        {"name": name, "containerPort": number} for name, number in (ports or STANDARD).items()
    ]
    raw["spec"]["headGroupSpec"] |= spec.pop("headGroupSpec", {})
    raw["spec"]["workerGroupSpecs"][0] |= spec.pop("worker", {})
    raw["metadata"]["annotations"] = spec.pop("annotations", {})
    raw["spec"] |= spec
    return raw


SAMPLES: dict[str, dict[str, Any]] = {
    "separate-ingress": sample(headGroupSpec={"serviceType": "NodePort"}),
    "custom-head-service": sample(
        headGroupSpec={
            "headService": {
                "metadata": {
                    "name": "custom-name",
                    "labels": {"custom-label": "custom-value"},
                    "annotations": {"custom-annotation": "custom-value"},
                },
                "spec": {
                    "type": "LoadBalancer",
                    "ports": [{"name": "custom-port", "port": 12345, "targetPort": 12345}],
                },
            }
        }
    ),
    "embedded-gcs-ft": sample(
        {"gcs": 6379, "dashboard": 8265, "client": 10001}, gcsFaultToleranceOptions=EMBEDDED
    ),
    "auth": sample(authOptions={"mode": "token"}, enableInTreeAutoscaling=True),
    "autoscaler": sample(enableInTreeAutoscaling=True),
    "tpu-multihost": sample(
        {"gcs": 6379, "dashboard": 8265, "client": 10001, "serve": 8000, "grpc": 8888},
        worker={"numOfHosts": 4},
    ),
    "serve-service": sample(
        {"serve": 8000, "serve-grpc": 9000}, annotations={"ray.io/enable-serve-service": "true"}
    ),
    "ingress": sample(
        annotations={
            "kubernetes.io/ingress.class": "nginx",
            "nginx.ingress.kubernetes.io/rewrite-target": "/$1",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "manta.dev/anything": "of our own",
        },
        headGroupSpec={
            "enableIngress": True,
            "ingressOptions": {
                "host": "ray.example.com",
                "path": "/ray/(.*)",
                "pathType": "ImplementationSpecific",
                "tls": [{"hosts": ["ray.example.com"], "secretName": "ray-tls"}],
            },
        },
    ),
    "route": sample(
        annotations={"kubernetes.io/ingress.class": "nginx"}, headGroupSpec={"enableIngress": True}
    ),
    "network-policy": sample(
        networkPolicy={
            "head": {
                "ingressRules": [{"from": [{"namespaceSelector": {}}], "ports": [{"port": 8080}]}],
                "egressRules": [{"ports": [{"port": 53, "protocol": "UDP"}]}],
            },
            "worker": {"egressRules": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
        }
    ),
}
SERVED = {"route": {ROUTES}, "network-policy": {NETWORK_POLICIES}}


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_children_of_the_samples_are_as_written_down(name: str):
    expected = list(yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text()))
    assert bodies(SAMPLES[name], served=SERVED.get(name, set())) == expected


def test_there_is_a_sample_for_every_golden_file():
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == set(SAMPLES)


def test_a_short_ingress_leads_everything_to_the_dashboard():
    raw = sample({"gcs-server": 6379}, headGroupSpec={"enableIngress": True})
    ingress = bodies(raw)[-1]
    (rule,) = ingress["spec"]["rules"]
    assert "host" not in rule
    (path,) = rule["http"]["paths"]
    assert (path["path"], path["pathType"]) == ("/", "Prefix")
    assert path["backend"]["service"]["port"] == {"number": 8265}, "the container names no port"
    assert ingress["spec"].keys() == {"rules"}, "no class is asked for"


def test_an_administrator_may_want_ingresses_on_openshift():
    settings = RaySettings.from_environment({"USE_INGRESS_ON_OPENSHIFT": "True"})
    kept = reads(cluster(SAMPLES["route"]), served={ROUTES})
    made = plan(kept, RayClusterKind(settings))
    assert [write.target.resource.kind for write in made.independent] == ["Ingress"]


def test_the_name_of_a_route_leaves_room_for_the_namespace():
    raw = sample(headGroupSpec={"enableIngress": True})
    raw["metadata"]["name"] = "a" * 53
    made_by = RayClusterKind()
    kept = reads(cluster(raw), served={ROUTES})
    seen = made_by.observe(f"default/{'a' * 53}", kept)
    assert seen is not None
    (route,) = (part for part in seen.children.absent if part.resource.kind == "Route")
    assert route.name == "a" * 44, "51 less the length of `default`"


def test_tls_that_a_route_would_leave_out_is_given_by_an_ingress():
    group = {"enableIngress": True, "ingressOptions": {"tls": [{"secretName": "s"}]}}
    seen = RayClusterKind().observe(
        "default/example", reads(cluster(sample(headGroupSpec=group)), served={ROUTES})
    )
    assert seen is not None
    kinds = {part.resource.kind for part in seen.children.absent}
    assert "Ingress" in kinds
    assert "Route" not in kinds


def test_the_token_is_made_for_the_request_and_is_in_no_plan():
    tokens = iter([TOKEN, "another"])
    kind = RayClusterKind(RaySettings(new_token=lambda: next(tokens)))
    made = plan(reads(cluster(SAMPLES["auth"])), kind)
    (secret,) = (write for write in made.stages[0] if write.target.resource is SECRETS)
    assert isinstance(secret, Create)
    assert secret.secret is not None
    assert secret.secret() == {"stringData": {"auth_token": TOKEN}}
    assert secret.secret() == {"stringData": {"auth_token": "another"}}, "never the same one twice"
    assert TOKEN not in repr(made)
    assert "stringData" not in secret.body


@pytest.mark.parametrize(
    ("auth", "wanted"),
    [
        ({"mode": "token"}, True),
        ({}, True),  # documented default
        ({"mode": "disabled"}, False),
        ({"mode": "token", "secretName": "mine"}, False),
        ({"mode": "token", "enableK8sTokenAuth": True}, False),
    ],
)
def test_a_secret_is_made_only_where_no_other_token_is_given(auth: dict[str, Any], wanted: bool):
    raw = sample(authOptions=auth, rayVersion="2.55.0")
    assert ("Secret" in [body["kind"] for body in bodies(raw)]) is wanted


def test_a_secret_of_that_name_that_is_not_ours_is_waited_for():
    kept = reads(cluster(SAMPLES["auth"]), taken={"Secret/default/example"})
    made = plan(kept)
    assert "Pod" not in {write.target.resource.kind for stage in made.stages for write in stage}
    assert made.requeue_after == BLOCKED_RETRY


@pytest.mark.parametrize("policy", ["DeleteWithCluster", "Retain"])
def test_a_claim_that_is_to_be_kept_has_no_owner(policy: str):
    options = {"backend": "rocksdb", "storage": {"deletionPolicy": policy, "size": "2Gi"}}
    claim = bodies(sample(gcsFaultToleranceOptions=options))[-1]
    assert ("ownerReferences" in claim["metadata"]) is (policy == "DeleteWithCluster")
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"


def test_a_claim_of_the_user_is_not_made_and_its_absence_is_said():
    options = {"backend": "rocksdb", "storage": {"claimName": "mine"}}
    obj = cluster(sample(gcsFaultToleranceOptions=options))
    made = plan(reads(obj))
    assert "create PersistentVolumeClaim mine" not in writes(made)
    (event,) = made.events
    assert event.reason == "FailedToCreatePVC"
    assert "PersistentVolumeClaim mine does not exist" in event.note
    assert "Pod" in {write.target.resource.kind for stage in made.stages for write in stage}
    assert made.requeue_after == BLOCKED_RETRY, "nobody need tell us when it is made"
    claim = CLAIMS.view(metadata=meta("mine"))
    assert plan(reads(obj).add(CLAIMS, claim)).events == ()


def test_notes_that_no_message_has_room_for_are_reported_once():
    seen = RayClusterKind().observe("default/example", reads(cluster()))
    assert seen is not None
    notes = tuple(Note("FailedToCreateService", f"service {n}: " + "x" * 99) for n in range(99))
    seen = replace(seen, children=replace(seen.children, notes=notes))
    assert len([*child_events(seen)]) == 99
    conditions = ClusterConditions((), 1, NOW)
    conditions.set("ChildrenAsSpecified", "False", "NeedsHelp", seen.children.notes_message)
    told = seen_with(seen, {"conditions": conditions.as_list()})
    assert [*child_events(told)] == []


def test_a_head_waits_for_the_service_account_that_its_template_names():
    raw = sample(enableInTreeAutoscaling=True)
    raw["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] = "mine"
    made = plan(reads(cluster(raw)))
    assert [event.reason for event in made.events] == ["AutoscalerServiceAccountNotFound"]
    assert "Pod" not in {write.target.resource.kind for stage in made.stages for write in stage}
    assert made.status is not None
    ready = {c["type"]: c for c in made.status.wanted["conditions"]}["Ready"]
    assert ready["reason"] == "GivenObjectMissing"
    assert "ServiceAccount mine does not exist" in ready["message"]


def test_a_serve_service_without_a_port_to_serve_on_is_said_and_stops_nothing():
    raw = sample(annotations={"ray.io/enable-serve-service": "true"})
    made = plan(reads(cluster(raw)))
    (event,) = made.events
    assert event.reason == "FailedToCreateService"
    assert "no port named `serve`" in event.note
    assert made.independent == ()
    assert "create Service example-head-svc" in writes(made)
    assert "Pod" in {write.target.resource.kind for stage in made.stages for write in stage}


def test_a_user_port_of_the_same_name_or_number_takes_the_place_of_ours():
    raw = sample(
        headGroupSpec={
            "headService": {
                "spec": {
                    "ports": [
                        {"name": "dashboard", "port": 80, "targetPort": 8265},
                        {"port": 10001},
                    ]
                }
            }
        }
    )
    (service,) = (body for body in bodies(raw) if body["kind"] == "Service")
    assert [(port["name"], port["port"]) for port in service["spec"]["ports"]] == [
        ("dashboard", 80),
        ("10001-port", 10001),
        ("gcs-server", 6379),
        ("metrics", 8080),
    ], "a service cannot have a port twice"


def test_the_head_service_follows_the_labels_that_the_head_really_gets():
    raw = sample()
    raw["spec"]["headGroupSpec"]["template"]["metadata"] = {
        "labels": {"app.kubernetes.io/created-by": "me", "ray.io/identifier": "odd"}
    }
    (service,) = bodies(raw)
    selector = service["spec"]["selector"]
    assert selector["app.kubernetes.io/created-by"] == "me"
    assert selector["ray.io/identifier"] == "odd"


def test_a_claim_that_belongs_to_another_cluster_keeps_the_head_waiting():
    foreign = CLAIMS.view(metadata=meta("example-gcs-pvc", owner_references=(owner("other"),)))
    made = plan(reads(cluster(SAMPLES["embedded-gcs-ft"])).add(CLAIMS, foreign))
    assert "Pod" not in {write.target.resource.kind for stage in made.stages for write in stage}
    assert made.status is not None
    [ready] = [c for c in made.status.wanted["conditions"] if c["type"] == "Ready"]
    assert f"exists and {ownership_text(foreign.metadata)}; delete that object" in ready["message"]
    going = with_meta(
        foreign, owner_references=(owner(UID),), deletion_timestamp="2026-08-20T09:59:00Z"
    )
    made = plan(reads(cluster(SAMPLES["embedded-gcs-ft"])).add(CLAIMS, going))
    assert "Pod" not in {write.target.resource.kind for stage in made.stages for write in stage}
    assert "create PersistentVolumeClaim example-gcs-pvc" not in writes(made)
    assert made.status is not None
    [ready] = [c for c in made.status.wanted["conditions"] if c["type"] == "Ready"]
    assert "it is recreated when no pod uses it and it has no finalizers" in ready["message"]
    assert "delete that object" not in ready["message"], "it is being deleted"


def test_a_foreign_serve_service_is_said_and_stops_nothing():
    foreign = SERVICES.view(metadata=meta("example-serve-svc"))
    made = plan(reads(cluster(SAMPLES["serve-service"])).add(SERVICES, foreign))
    assert made.independent == ()
    assert [event.reason for event in made.events] == ["FailedToCreateService"]
    assert "Pod" in {write.target.resource.kind for stage in made.stages for write in stage}


def test_a_binding_that_somebody_changes_again_and_again_is_not_remade_in_haste():
    def remade(made_at: str) -> tuple[list[str], float | None]:
        changed = ROLE_BINDINGS.view(
            metadata=meta(
                "example", owner_references=(owner(UID),), uid="b", creation_timestamp=made_at
            ),
            subjects=(),
        )
        made = plan(reads(cluster(SAMPLES["autoscaler"])).add(ROLE_BINDINGS, changed))
        deletes = [write for write in made.independent if isinstance(write, Delete)]
        return [write.target.resource.kind for write in deletes], made.requeue_after

    assert remade("2026-08-20T09:59:55Z") == ([], 5.0)
    assert remade("2026-08-20T09:59:45Z") == (["RoleBinding"], None)
