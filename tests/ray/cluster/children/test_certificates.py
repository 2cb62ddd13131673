"""mTLS: what cert-manager is asked for, who waits for it, and what follows the pods."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from prometheus_client import CollectorRegistry

from controller.apimachinery.validation import Problem
from controller.kube.objects import Certificate, KubeObject, Pod
from controller.kube.resources import CERTIFICATES, ISSUERS, PODS, SECRETS
from controller.ray.api import FeatureGates, validate_cluster
from controller.ray.api.names import TLS_VARIABLES
from controller.ray.cluster import CertificateCollector, RayClusterKind
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cluster.redis_cleanup import cleanup_job
from controller.ray.settings import RaySettings
from controller.runtime.kind import OWNER_INDEX
from controller.runtime.plan import Create, Delete, Failure, Plan, Replace
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import (
    NOW,
    UID,
    cluster,
    head,
    manifest,
    meta,
    owner,
    plan,
    with_children,
    with_meta,
    workers,
)

Json = dict[str, Any]

KIND = RayClusterKind(RaySettings(feature_gates=FeatureGates.parse("RayClusterMTLS=true")))
LEAVES = {
    "ray-head-cert-example": "ray-head-secret-example",
    "ray-worker-cert-example": "ray-worker-secret-example",
}
AUTHORITY = "ray-ca-certificate-example"
OBJECTS = {ISSUERS, CERTIFICATES}


def secured(*pods: Pod, served: set[Any] = OBJECTS) -> FakeReads:
    raw = manifest()
    raw["spec"]["tlsOptions"] = {"enabled": True}
    kept = FakeReads(KIND, served=set(served))
    return kept.add(KIND.primary, cluster(raw)).add(PODS, *pods)


def of_mtls(pod: Pod, address: str = "10.0.0.7", **status: Any) -> Pod:
    """The pod as the operator makes it with mTLS, at an address."""
    raw = msgspec.to_builtins(pod)
    raw["spec"]["initContainers"] = [{"name": "wait-for-tls-ip-san"}]
    raw["status"] |= {"podIP": address} | status
    return msgspec.convert(raw, Pod)


def issued(kept: FakeReads, **status: Any) -> FakeReads:
    """The same cache after cert-manager has issued everything."""
    kept = with_children_of(kept)
    for name in (*LEAVES, AUTHORITY):
        present = kept.get(CERTIFICATES, f"default/{name}")
        assert present is not None
        raw = msgspec.to_builtins(present)
        raw["metadata"] |= {"generation": 1, "uid": f"uid-of-{name}"}
        ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
        raw["status"] = {"conditions": [ready], "notAfter": "2026-11-01T00:00:00Z"} | status
        kept.add(CERTIFICATES, msgspec.convert(raw, Certificate))
    return kept


def with_children_of(kept: FakeReads) -> FakeReads:
    return with_children(kept, KIND)


def certificates(made: Plan) -> list[Any]:
    writes = [*(write for stage in made.stages for write in stage), *made.independent]
    return [each for each in writes if each.target.resource in OBJECTS]


def created_pods(made: Plan) -> int:
    writes = [write for stage in made.stages for write in stage if isinstance(write, Create)]
    return sum(each.target.resource is PODS for each in writes)


def ready_condition(made: Plan) -> Json:
    assert made.status is not None
    return next(each for each in made.status.wanted["conditions"] if each["type"] == "Ready")


def test_cert_manager_is_asked_for_what_kuberay_asks_for_and_no_pod_is_made_before():
    made = plan(secured(), KIND)
    golden = Path(__file__).with_name("certificates.yaml").read_text()
    expected: list[Json] = list(yaml.safe_load_all(golden))
    shared = {
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
        "ray.io/cluster": "example",
    }
    for body in expected:
        body["metadata"]["labels"] |= shared
        body["metadata"]["namespace"] = "default"
        body["metadata"]["ownerReferences"] = [
            msgspec.to_builtins(owner(UID)) | {"blockOwnerDeletion": True}
        ]
    assert [write.body for write in certificates(made)] == expected
    assert created_pods(made) == 0
    assert ready_condition(made)["reason"] == "ChildMissing"


def test_pods_come_when_both_certificates_are_issued_as_they_are_specified():
    made = plan(issued(secured()), KIND)
    assert created_pods(made) == 3
    assert [each.reason for each in made.events] == ["MTLSPKIReady"]
    with_head = plan(issued(secured(of_mtls(head()))), KIND)
    assert created_pods(with_head) == 2
    assert with_head.events == ()


@pytest.mark.parametrize("resource", [ISSUERS, CERTIFICATES])
def test_a_write_that_fails_is_an_event_with_kuberays_reason(resource: Any):
    kept = secured()
    seen = KIND.observe("default/example", kept)
    assert seen is not None
    made = KIND.plan(seen, NOW)
    write = next(each for each in certificates(made) if each.target.resource is resource)
    failures = (Failure(write, "Forbidden", "a webhook denied it"),)
    status = KIND.status_after(seen, made, failures, NOW)
    assert status is not None
    (event,) = status.events
    assert (event.type, event.reason) == ("Warning", "MTLSFailedToReconcile")
    assert "a webhook denied it" in event.note


@pytest.mark.parametrize("late", LEAVES)
@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ({"status": "False", "reason": "DoesNotExist", "message": "no Secret"}, "no Secret"),
        ({"status": "True", "observedGeneration": 0}, "has not read its last change"),
    ],
)
def test_a_certificate_that_is_not_issued_holds_up_pods_and_no_deletion(
    late: str, condition: Json, said: str
):
    surplus = [of_mtls(each, "10.0.0.8") for each in workers(4)]
    kept = late_of(issued(secured(*surplus)), late, condition)
    made = plan(kept, KIND)
    assert created_pods(made) == 0
    assert sum(isinstance(each, Delete) for stage in made.stages for each in stage) == 2
    told = ready_condition(made)
    assert told["reason"] == "CertificatePending"
    assert told["message"].startswith(f"Certificate {late}: ")
    assert said in told["message"]


def late_of(kept: FakeReads, late: str, condition: Json) -> FakeReads:
    """The same cache with a certificate of which cert-manager says this."""
    present = kept.get(CERTIFICATES, f"default/{late}")
    assert present is not None
    raw = msgspec.to_builtins(present)
    raw["status"]["conditions"] = [{"type": "Ready"} | condition]
    return kept.add(CERTIFICATES, msgspec.convert(raw, Certificate))


def test_a_cluster_whose_pods_are_there_stays_ready_while_a_certificate_is_renewed():
    pods = [of_mtls(head(), "10.0.0.7"), *(of_mtls(each, "10.0.0.8") for each in workers(2))]
    renewed = {"status": "False", "reason": "Renewing", "message": "soon"}
    kept = late_of(issued(secured(*pods)), "ray-worker-cert-example", renewed)
    assert ready_condition(plan(kept, KIND))["status"] == "True"


def test_what_is_not_issued_for_five_minutes_is_an_event_with_kuberays_reason():
    begun = (NOW - timedelta(minutes=4)).strftime("%Y-%m-%dT%H:%M:%SZ")
    failed = {"type": "Ready", "status": "False", "reason": "Failed", "lastTransitionTime": begun}
    kept = issued(secured(), conditions=[failed])
    young, old = plan(kept, KIND), plan(kept, KIND, seconds=60)
    assert young.status is not None
    assert old.status is not None
    assert (young.status.valid_for, young.status.events) == (60.0, ())
    assert ready_condition(old)["reason"] == "CertificateNotIssued"
    assert [each.reason for each in old.status.events] == ["MTLSCertsNotReady"]


def test_addresses_follow_the_pods_of_a_role_that_live():
    there = [of_mtls(each, f"10.0.0.{i}") for i, each in enumerate(workers(2), start=20)]
    ended = of_mtls(workers(3)[2], "10.0.0.22", phase="Failed")
    going = of_mtls(head("example-head-bbbbbbbb", terminating=True), "10.0.0.9")
    starting = of_mtls(head(), "10.0.0.10")
    made = plan(issued(secured(going, starting, *there, ended)), KIND)
    # `issued` made them for no pod; the cache has what was created
    kept = issued(secured())
    for each in (going, starting, *there, ended):
        kept.add(PODS, each)
    made = plan(kept, KIND)
    found = {write.target.name: write.merge["spec"] for write in certificates(made)}
    assert all(isinstance(write, Replace) for write in certificates(made))
    assert found == {
        "ray-head-cert-example": {"ipAddresses": ["10.0.0.10", "127.0.0.1"]},
        "ray-worker-cert-example": {"ipAddresses": ["10.0.0.20", "10.0.0.21", "127.0.0.1"]},
    }
    assert {write.on_success.reason for write in certificates(made)} == {"MTLSCertificatesUpdated"}


def test_another_order_of_addresses_is_no_difference_and_a_certificate_of_kuberay_gets_the_label():
    kept = issued(secured(of_mtls(head())))
    present = kept.get(CERTIFICATES, "default/ray-head-cert-example")
    assert present is not None
    raw = msgspec.to_builtins(present)
    raw["spec"]["ipAddresses"] = ["127.0.0.1", "10.0.0.7"]
    kept.add(CERTIFICATES, msgspec.convert(raw, Certificate))
    assert certificates(plan(kept, KIND)) == []
    raw["spec"]["secretTemplate"] = None
    kept.add(CERTIFICATES, msgspec.convert(raw, Certificate))
    (write,) = certificates(plan(kept, KIND))
    assert write.merge == {"spec": {"secretTemplate": {"labels": {"ray.io/cluster": "example"}}}}


def test_a_secret_belongs_to_its_certificate_beside_whom_it_belonged_to():
    kept = issued(secured())
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}
    for name in LEAVES.values():
        secret = msgspec.convert(
            {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "uid": name,
                    "ownerReferences": [other],
                }
            },
            KubeObject,
        )
        kept.add(SECRETS, secret)
    made = [each for each in plan(kept, KIND).independent if each.target.resource is SECRETS]
    merged: list[list[Json]] = [
        each.merge["metadata"]["ownerReferences"] for each in made if isinstance(each, Replace)
    ]
    found = [[each["name"] for each in owners] for owners in merged]
    assert found == [["a", name] for name in LEAVES]
    for name, secret_name in LEAVES.items():
        references = (*owner_of(name),)
        kept.add(SECRETS, KubeObject(metadata=meta(secret_name, owner_references=references)))
    assert not [each for each in plan(kept, KIND).independent if each.target.resource is SECRETS]


def owner_of(name: str) -> tuple[Any, ...]:
    return (msgspec.structs.replace(owner(f"uid-of-{name}", name), controller=None),)


@pytest.mark.parametrize("lacking", [OBJECTS, {ISSUERS}, {CERTIFICATES}])
def test_without_cert_managers_api_no_pod_is_made_and_the_cause_is_named(lacking: set[Any]):
    made = plan(secured(served=OBJECTS - lacking), KIND)
    assert created_pods(made) == 0
    ready = ready_condition(made)
    assert ready["reason"] == "CertManagerMissing"
    assert all(str(each) in ready["message"] for each in lacking)
    assert made.status is not None
    assert [each.reason for each in made.status.events] == ["InvalidRayClusterSpec"]


def test_certificates_stay_while_a_pod_uses_one_and_go_after_the_last():
    kept = issued(secured())
    kept.objects = {key: obj for key, obj in kept.objects.items() if key[0] != "rayclusters"}
    raw = manifest()
    raw["spec"]["tlsOptions"] = {"enabled": False}
    kept.add(KIND.primary, cluster(raw))
    user, other = of_mtls(workers(1)[0]), head()
    kept.add(PODS, user, other)
    assert certificates(plan(kept, KIND)) == []
    kept.add(PODS, with_meta(workers(1)[0], owner_references=(owner(),)))
    gone = certificates(plan(kept, KIND))
    assert all(isinstance(each, Delete) for each in gone)
    assert len(gone) == 5


def test_a_metric_tells_when_each_certificate_ends():
    kept, made = issued(secured()), CollectorRegistry()
    made.register(CertificateCollector(lambda: kept.by_index(CERTIFICATES, OWNER_INDEX, UID)))
    (family,) = made.collect()
    found = {each.labels["name"]: each.value for each in family.samples}
    assert found == dict.fromkeys(
        (*LEAVES, AUTHORITY), datetime(2026, 11, 1, tzinfo=UTC).timestamp()
    )
    assert {each.labels["cluster"] for each in family.samples} == {"example"}


def test_what_ends_soon_is_told_a_day_before_and_pods_when_their_certificate_is_renewed():
    running = {"name": "ray-head", "state": {"running": {"startedAt": "2026-08-01T00:00:00Z"}}}
    raw = msgspec.to_builtins(of_mtls(head(), containerStatuses=[running]))
    raw["spec"]["containers"][0]["env"] = [{"name": "KUBERAY_GEN_RAY_START_CMD"}]
    kept = issued(secured(msgspec.convert(raw, Pod)))

    def told(at: datetime) -> list[str]:
        made = plan(kept, KIND, seconds=(at - NOW).total_seconds())
        return [e.note for e in made.events if e.reason == "MTLSCertificateExpiringSoon"]

    renewed = datetime(2026, 10, 15, tzinfo=UTC)  # 75 days after Ray's start
    assert told(renewed - timedelta(seconds=1)) == []
    (pods,) = told(renewed)
    assert "example-head-aaaaaaaa: the certificate with which they began ends at 2026-10-30" in pods
    end = datetime(2026, 11, 1, tzinfo=UTC)
    assert len(told(end - timedelta(days=1, seconds=1))) == 1
    assert len(told(end - timedelta(days=1))) == 4
    before = plan(kept, KIND, seconds=(renewed - NOW).total_seconds() - 7)
    assert before.requeue_after == 7.0


ENV: Json = {"env": [{"name": "RAY_TLS_CA_CERT", "value": "/mine"}]}
MOUNT: Json = {"volumeMounts": [{"name": "mine", "mountPath": "/etc/ray//tls/"}]}


@pytest.mark.parametrize(
    ("at", "given", "field"),
    [
        ("head", ENV, "spec.headGroupSpec.template.spec.containers[0].env[RAY_TLS_CA_CERT]"),
        (
            "worker",
            MOUNT,
            "spec.workerGroupSpecs[0].template.spec.containers[0].volumeMounts[mine]",
        ),
        ("autoscaler", ENV, "spec.autoscalerOptions.env[RAY_TLS_CA_CERT]"),
        ("autoscaler", MOUNT, "spec.autoscalerOptions.volumeMounts[mine]"),
    ],
)
def test_what_would_collide_with_the_certificates_is_refused_only_with_mtls(
    at: str, given: Json, field: str
):
    raw = manifest()
    spec = raw["spec"]
    spec["autoscalerOptions"] = {}
    places = {
        "head": spec["headGroupSpec"]["template"]["spec"]["containers"][0],
        "worker": spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0],
        "autoscaler": spec["autoscalerOptions"],
    }
    places[at].update(given)
    gates = FeatureGates.parse("RayClusterMTLS=true")
    assert not isinstance(validate_cluster(cluster(raw), gates), Problem)
    spec["tlsOptions"] = {"enabled": True}
    problem = validate_cluster(cluster(raw), gates)
    assert isinstance(problem, Problem)
    assert problem.field == field


def test_the_job_that_cleans_redis_has_no_certificate():
    raw = manifest()
    raw["spec"] |= {
        "tlsOptions": {"enabled": True},
        "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
    }
    kept = FakeReads(KIND, served=set(OBJECTS)).add(KIND.primary, cluster(raw))
    seen = KIND.observe("default/example", kept)
    assert isinstance(seen, ClusterObservation)
    job = cleanup_job(seen.desired, RaySettings(), owned=True)
    container = job["spec"]["template"]["spec"]["containers"][0]
    names = {each["name"] for each in container["env"]}
    assert "RAY_REDIS_ADDRESS" in names
    assert not names & TLS_VARIABLES.keys()
