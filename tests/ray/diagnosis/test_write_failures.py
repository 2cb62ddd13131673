"""The API server's refusals, word for word as it writes them, told as causes."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.resources import PODS, ROLES, SERVICES
from controller.ray.diagnosis.reasons import Cause
from controller.ray.diagnosis.writes import (
    failure_cause,
    failure_message,
    failure_reason,
    is_inconclusive,
)
from controller.runtime.plan import Create, Delete, Failure, MergePatch, Target

POD = "example-workers-worker-b4x7k2mp"
OPERATOR = "system:serviceaccount:manta:manta-operator"
QUOTA = (
    f'pods "{POD}" is forbidden: exceeded quota: team, requested: limits.memory=2Gi,pods=1, '
    "used: limits.memory=8Gi,pods=5, limited: limits.memory=8Gi,pods=5"
)
RIGHT = (
    f'pods is forbidden: User "{OPERATOR}" cannot create resource "pods" in API group "" in the '
    'namespace "default"'
)
ROLE_RIGHT = (
    f'roles.rbac.authorization.k8s.io is forbidden: User "{OPERATOR}" cannot create resource '
    '"roles" in API group "rbac.authorization.k8s.io" in the namespace "default"'
)
UNDEFAULTED = (
    f'pods "{POD}" is forbidden: failed quota: team: must specify limits.memory for: ray-worker'
)
LIMITS = f'pods "{POD}" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi'
BASELINE = (
    f'pods "{POD}" is forbidden: violates PodSecurity "restricted:latest": '
    'allowPrivilegeEscalation != false (container "ray-worker" must set '
    "securityContext.allowPrivilegeEscalation=false)"
)
ACCOUNT = (
    f'pods "{POD}" is forbidden: error looking up service account default/ray: '
    'serviceaccount "ray" not found'
)
PRIORITY = f'pods "{POD}" is forbidden: no PriorityClass with name high was found'
WEBHOOK = (
    'admission webhook "validate.kyverno.svc-fail" denied the request: policy Pod/default for '
    "resource violation: require-team: label team is required"
)
POLICY = (
    f"pods \"{POD}\" is forbidden: ValidatingAdmissionPolicy 'latest' with binding 'latest-all' "
    "denied request: images must have a tag"
)
NO_WEBHOOK = (
    'Internal error occurred: failed calling webhook "inject.istio.io": failed to call webhook: '
    'Post "https://istiod.istio-system.svc:443/inject?timeout=10s": dial tcp 10.0.0.9:443: '
    "connect: connection refused"
)
INVALID = f'Pod "{POD}" is invalid: spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'  # noqa: E501  one sentence
GOING = (
    f'pods "{POD}" is forbidden: unable to create new content in namespace default because it is '
    "being terminated"
)
MOST = "maximum memory usage per Container is 1Gi, but limit is 2Gi."
WAIT_SIZE = "give the pod template an init container wait-gcs-ready that has only other resources"
GRANT = f"; allow {OPERATOR} the verb create on"


def failure(
    reason: str, message: str, *, scope: str = "worker/workers", name: str = POD, **more: Any
) -> Failure:
    return Failure(Create(Target(PODS, "default", name, scope), {}), reason, message, **more)


def cause_of(failed: Failure) -> Cause:
    return failure_cause(failed, has_head=False)


@pytest.mark.parametrize(
    ("reason", "said", "name", "words"),
    [
        (
            "Forbidden",
            QUOTA,
            "QuotaExceeded",
            (
                "exceeded quota: team, requested: limits.memory=2Gi,pods=1, used: limits.memory="
                "8Gi,pods=5, limited: limits.memory=8Gi,pods=5; ask for a larger quota or lower "
                "replicas"
            ),
        ),
        ("Forbidden", UNDEFAULTED, "QuotaNeedsResources", "must specify limits.memory for: ray-"),
        ("Forbidden", LIMITS, "LimitRangeViolated", "maximum memory usage per Container is 1Gi"),
        ("Forbidden", BASELINE, "PodSecurityViolated", 'violates PodSecurity "restricted:latest"'),
        (
            "Forbidden",
            ACCOUNT,
            "ServiceAccountNotFound",
            "; create the service account default/ray, or correct serviceAccountName",
        ),
        ("Forbidden", PRIORITY, "AdmissionDenied", "no PriorityClass with name high was found"),
        ("Forbidden", WEBHOOK, "AdmissionDenied", WEBHOOK),
        ("BadRequest", WEBHOOK, "AdmissionDenied", WEBHOOK),
        ("Invalid", POLICY, "AdmissionDenied", "denied request: images must have a tag"),
        (
            "InternalError",
            NO_WEBHOOK,
            "AdmissionUnavailable",
            f"{NO_WEBHOOK}; repair the service of the webhook, or delete the webhook's conf",
        ),
        ("Forbidden", RIGHT, "Forbidden", f"{GRANT} pods by a Role and its binding"),
        ("Invalid", INVALID, "ObjectInvalid", "spec.containers[0].resources.requests: Invalid"),
        ("Forbidden", GOING, "NamespaceTerminating", "because it is being terminated"),
        ("NamespaceTerminating", "no", "NamespaceTerminating", "no"),
        ("TooManyRequests", "slow down", "ApiServerUnavailable", "slow down; the operator tries"),
        ("NotSent", "refused", "ApiServerUnavailable", "cannot create a pod: refused"),
        ("Paused", WEBHOOK, "ApiServerUnavailable", WEBHOOK),
        ("DeletedAgain", "somebody keeps deleting it", "RepeatedlyDeleted", "somebody keeps"),
        ("NotFound", 'namespaces "x" not found', "WriteRefused", 'namespaces "x" not found'),
        ("RequestEntityTooLarge", "limit is 3145728", "ObjectTooLarge", "large values into Config"),
    ],
)
def test_a_refusal_is_told_in_the_servers_words(reason: str, said: str, name: str, words: str):
    cause = cause_of(failure(reason, said))
    assert cause.reason.name == name
    assert words in cause.detail
    assert cause.component == "group workers"
    assert cause.event == "FailedToCreateWorkerPod"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        *(
            ("Forbidden", said)
            for said in (QUOTA, UNDEFAULTED, LIMITS, BASELINE, ACCOUNT, PRIORITY, RIGHT, GOING)
        ),
        ("Invalid", INVALID),
        ("BadRequest", WEBHOOK),
        ("InternalError", NO_WEBHOOK),
        ("TooManyRequests", "slow down"),
        ("NotFound", "no"),
    ],
)
def test_after_the_servers_words_a_message_says_what_to_do(reason: str, said: str):
    words = said.replace(f' "{POD}"', "")
    assert f"{words}; " in cause_of(failure(reason, said)).detail


def test_a_create_in_vain_is_no_refused_one():
    assert cause_of(failure("DeletedAgain", "mesh deletes it")).detail == "mesh deletes it"


@pytest.mark.parametrize("said", [QUOTA, ACCOUNT, BASELINE, INVALID, GOING])
def test_another_attempt_under_another_name_says_the_same(said: str):
    again = said.replace(POD, "example-workers-worker-zzzzzzzz")
    first = failure("Forbidden", said)
    second = failure("Forbidden", again, name="example-workers-worker-zzzzzzzz")
    assert cause_of(first) == cause_of(second)
    assert failure_message(first) == failure_message(second)
    assert POD not in failure_message(first)


def test_rights_are_named_with_their_group():
    role = Create(Target(ROLES, "default", "example", "access"), {})
    cause = cause_of(Failure(role, "Forbidden", ROLE_RIGHT))
    assert cause.message == (
        f"Role example: cannot be created: {ROLE_RIGHT}{GRANT} "
        "roles.rbac.authorization.k8s.io by a Role and its binding"
    )
    assert cause.blocks_head, "the parts with fixed names are made before the head"
    repair = Failure(role, "Forbidden", ROLE_RIGHT)
    assert not failure_cause(repair, has_head=True).blocks_head


def test_only_an_answer_is_a_refusal():
    for reason in (
        "NotSent",
        "Paused",
        "UnexpectedResponse",
        "TooManyRequests",
        "ServiceUnavailable",
        "InternalError",
    ):
        assert is_inconclusive(failure(reason, "no")), reason
    assert is_inconclusive(failure("OutcomeUnknown", "reset", unknown=True))
    assert not is_inconclusive(failure("Forbidden", QUOTA))
    assert is_inconclusive(failure("Paused", WEBHOOK)), "it is about another request"
    assert not is_inconclusive(failure("InternalError", NO_WEBHOOK)), "the webhook is the cause"


def test_the_marker_is_kuberays():
    target = Target(PODS, "default", "h", "head")
    assert failure_reason(Create(target, {})) == "FailedCreateHeadPod"
    assert failure_reason(Delete(target, "uid")) == "FailedDeleteHeadPod"
    assert failure_reason(failure("", "").write) == "FailedCreateWorkerPod"
    service = Target(SERVICES, "default", "s", "service/head")
    assert failure_reason(MergePatch(service, "uid", {})) == "FailedUpdateService"


def test_a_pod_that_cannot_be_deleted_is_named():
    delete = Delete(Target(PODS, "default", "p", "worker/workers"), "uid")
    cause = cause_of(Failure(delete, "Forbidden", RIGHT.replace("create", "delete")))
    assert cause.message.startswith("group workers: cannot delete pod p: pods is forbidden")
    assert "the verb delete on pods" in cause.message


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("minimum memory usage per Container is 512Mi, but request is 256Mi", WAIT_SIZE),
        (
            f"[minimum cpu usage per Container is 250m, but request is 0.2, {MOST}]",
            f"change the resources of container ray-worker in the pod template; {WAIT_SIZE}",
        ),
        (
            "minimum memory usage per Container is 1Gi, but request is 512Mi",
            "set spec.autoscalerOptions.resources",
        ),
        (
            "maximum memory usage per Container is 1Gi, but limit is 3Gi",
            "give the head's template a container ray-job-submitter that has only other resources",
        ),
        (
            "cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000",
            "change the resources in the pod template",
        ),
    ],
)
def test_a_limit_range_is_told_with_the_container_that_violates_it_and_how_to_size_it(
    message: str, remedy: str
):
    def amounts(cpu: str, memory: str) -> dict[str, Any]:
        return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}

    spec = {
        "initContainers": [{"name": "wait-gcs-ready", "resources": amounts("200m", "256Mi")}],
        "containers": [
            {"name": "ray-worker", "resources": amounts("1", "2Gi")},
            {"name": "autoscaler", "resources": amounts("500m", "512Mi")},
            {"name": "ray-job-submitter", "resources": amounts("600m", "3Gi")},
        ],
    }
    target = Target(PODS, "default", POD, "worker/workers")
    refused = Failure(Create(target, {"spec": spec}), "Forbidden", f"forbidden: {message}")
    said = cause_of(refused).detail
    assert said.endswith(f"; {remedy}, or ask for another LimitRange")
