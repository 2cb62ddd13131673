"""mTLS with the operator as the issuer: what is planned, and what is made when it is written."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry

from controller.apimachinery.patches import apply_merge_patch
from controller.kube.objects import Pod, Secret
from controller.kube.resources import PODS, SECRETS
from controller.ray.api import FeatureGates
from controller.ray.cluster import CertificateCollector, RayClusterKind
from controller.ray.settings import RaySettings
from controller.runtime.kind import OWNER_INDEX
from controller.runtime.plan import Create, Delete, Plan, Replace
from controller.testing.reads import FakeReads
from tests.ray.cluster.children.test_certificates import created_pods, of_mtls, ready_condition
from tests.ray.cluster.support import NOW, UID, cluster, head, manifest, plan, workers

Json = dict[str, Any]

GATES = FeatureGates.parse("RayClusterMTLS=true")
KIND = RayClusterKind(RaySettings(feature_gates=GATES, mtls_issuer="manta"))
AUTHORITY = "example-ca-secret-uid-of-e"
HEAD, WORKER = "ray-head-secret-example", "ray-worker-secret-example"


def secured(*pods: Pod, enabled: bool = True) -> FakeReads:
    raw = manifest()
    raw["spec"]["tlsOptions"] = {"enabled": enabled}
    return FakeReads(KIND).add(KIND.primary, cluster(raw)).add(PODS, *pods)


def secret_writes(made: Plan) -> list[Any]:
    writes = [*(write for stage in made.stages for write in stage), *made.independent]
    return [each for each in writes if each.target.resource is SECRETS]


def written(kept: FakeReads, *, seconds: float = 0) -> dict[str, Json]:
    """Carry out what is planned for Secrets, as the runtime does, until nothing is left to do."""
    stored: dict[str, Json] = {}
    while writes := secret_writes(plan(kept, KIND, seconds=seconds)):
        for write in writes:
            name = write.target.name
            body = write.body if isinstance(write, Create) else stored[name]
            if isinstance(write, Replace):
                body = apply_merge_patch(body, write.merge)
            source = [stored[write.reads.name]] if write.reads else []
            body = apply_merge_patch(body, write.secret(*source))
            stored[name] = apply_merge_patch(body, {"metadata": {"uid": f"uid-of-{name}"}})
            kept.add(SECRETS, msgspec.convert(stored[name], Secret))
    return stored


def end_of(body: Json) -> Any:
    chain = base64.b64decode(body["data"]["tls.crt"])
    return x509.load_pem_x509_certificate(chain).not_valid_after_utc


def test_first_the_authority_is_made_then_certificates_and_with_them_the_pods():
    kept = secured()
    first = plan(kept, KIND)
    assert [each.target.name for each in secret_writes(first)] == [AUTHORITY]
    assert created_pods(first) == 0
    assert ready_condition(first)["message"].startswith(f"Secret {AUTHORITY}: ")
    kept.add(SECRETS, msgspec.convert(secret_writes(first)[0].body, Secret))
    second = plan(kept, KIND)
    assert [each.target.name for each in secret_writes(second)] == [HEAD, WORKER]
    assert created_pods(second) == 3
    assert "Secret" not in {each.target.resource.kind for each in second.stages[1]}


def test_plans_hold_no_contents_of_secrets():
    kept = secured()
    for made in (plan(kept, KIND), plan(kept, KIND)):
        (write,) = secret_writes(made)
        assert set(write.body["data"].values()) == {""}
        assert repr(write.secret) == "SecretContent()"
    assert plan(kept, KIND) == plan(kept, KIND)
    written(kept)
    assert secret_writes(plan(kept, KIND)) == []


def test_a_secret_is_issued_anew_when_its_pods_have_other_addresses():
    kept = secured()
    written(kept)
    kept.add(PODS, of_mtls(workers(1)[0], "10.0.0.20"))
    (write,) = secret_writes(plan(kept, KIND))
    assert isinstance(write, Replace)
    assert write.target.name == WORKER
    assert write.on_success is not None
    assert write.on_success.reason == "MTLSCertificatesUpdated"


def test_a_certificate_is_issued_anew_fifteen_days_before_its_end_and_else_the_end_is_told():
    kept = secured(of_mtls(head()))
    stored = written(kept)
    due = timedelta(days=75).total_seconds()
    assert end_of(stored[HEAD]) == NOW + timedelta(days=90)
    waiting = plan(kept, KIND, seconds=due - 7)
    assert secret_writes(waiting) == []
    assert waiting.requeue_after == 7.0
    assert len(secret_writes(plan(kept, KIND, seconds=due))) == 2
    late = plan(kept, KIND, seconds=timedelta(days=89).total_seconds())
    notes = [each.note for each in late.events if each.reason == "MTLSCertificateExpiringSoon"]
    assert [note.split(" ends at ")[0] for note in notes] == [f"Secret {HEAD}", f"Secret {WORKER}"]


def test_what_was_issued_by_an_earlier_authority_is_issued_anew():
    kept = secured()
    stored = written(kept)
    again = stored[AUTHORITY] | {"metadata": stored[AUTHORITY]["metadata"] | {"uid": "another"}}
    kept.add(SECRETS, msgspec.convert(again, Secret))
    assert [each.target.name for each in secret_writes(plan(kept, KIND))] == [HEAD, WORKER]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {"uid": "another"}}, "was replaced"),
        ({"data": {}}, "delete it, and then the pods of the cluster"),
        ({"data": {"tls.crt": "c2VjcmV0", "tls.key": "c2VjcmV0"}}, "holds no usable authority"),
        ({"data": {"tls.crt": 7, "tls.key": None}}, "holds no usable authority"),
    ],
)
def test_an_authority_that_cannot_issue_is_named_without_its_contents(change: Json, words: str):
    kept = secured()
    first = plan(kept, KIND)
    body = secret_writes(first)[0].body
    kept.add(SECRETS, msgspec.convert(body, Secret))
    write = secret_writes(plan(kept, KIND))[0]
    with pytest.raises(ValueError, match=f"Secret {AUTHORITY} .*{words}") as raised:
        write.secret({"metadata": {"uid": ""}} | change)
    assert "secret" not in str(raised.value).removeprefix(f"Secret {AUTHORITY}")
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_a_secret_of_somebody_else_holds_up_the_pods_and_is_named():
    kept = secured()
    kept.add(SECRETS, msgspec.convert({"metadata": {"name": HEAD, "namespace": "default"}}, Secret))
    first = plan(kept, KIND)
    kept.add(SECRETS, msgspec.convert(secret_writes(first)[0].body, Secret))
    made = plan(kept, KIND)
    assert created_pods(made) == 0
    assert f"Secret {HEAD} exists" in ready_condition(made)["message"]


def test_secrets_go_after_the_last_pod_that_mounts_one_and_no_others():
    kept = secured(of_mtls(workers(1)[0]))
    stored = written(kept)
    token = {"metadata": stored[HEAD]["metadata"] | {"name": "token", "labels": None}}
    kept.add(SECRETS, msgspec.convert(token, Secret))
    off = secured(of_mtls(workers(1)[0]), enabled=False)
    bare = secured(enabled=False)
    for each in (off, bare):
        each.objects |= {key: obj for key, obj in kept.objects.items() if key[0] == "secrets"}
    assert secret_writes(plan(off, KIND)) == []
    gone = secret_writes(plan(bare, KIND))
    assert all(isinstance(each, Delete) for each in gone)
    assert {each.target.name for each in gone} == {AUTHORITY, HEAD, WORKER}


def test_a_metric_tells_when_each_certificate_ends():
    kept, made = secured(), CollectorRegistry()
    stored = written(kept)
    made.register(CertificateCollector(lambda: kept.by_index(SECRETS, OWNER_INDEX, UID)))
    (family,) = made.collect()
    found = {each.labels["name"]: each.value for each in family.samples}
    assert found == {name: end_of(body).timestamp() for name, body in stored.items()}


def test_the_longest_names_of_clusters_fit_into_certificates():
    raw, name = manifest(), "a" * 50
    raw["metadata"]["name"] = name
    raw["spec"]["tlsOptions"] = {"enabled": True}
    kept, source = FakeReads(KIND).add(KIND.primary, cluster(raw)), {}
    for _ in range(2):
        seen = KIND.observe(f"default/{name}", kept)
        assert seen is not None
        for write in secret_writes(KIND.plan(seen, NOW)):
            source = source or write.secret()
            assert write.reads is None or write.secret(source | {"metadata": {"uid": ""}})
            kept.add(SECRETS, msgspec.convert(write.body, Secret))
    assert len(kept.by_index(SECRETS, OWNER_INDEX, UID)) == 3
