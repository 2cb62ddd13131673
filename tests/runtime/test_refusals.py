"""The API server's refusals in its words, what a user can do about each, and their events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller.kube.objects import ObjectMeta
from controller.kube.resources import CONFIG_MAPS, NODES
from controller.runtime import reasons
from controller.runtime.kind import CreateError, FailedCreate
from controller.runtime.plan import DELETED_AGAIN, Create, Delete, Failure, Target
from controller.runtime.reasons import (
    events_of,
    last_refusal,
    next_look,
    refusal_of,
    refused_create,
    refused_pod,
    remedy_of,
    with_remedy,
)

FORBIDDEN = 'configmaps "a" is forbidden: '
WEBHOOK = 'Internal error occurred: failed calling webhook "a.example.com": connection refused'
DENIED = 'admission webhook "a.example.com" denied the request: no team'
POLICY = "ValidatingAdmissionPolicy 'latest' with binding 'all' denied request: needs a tag"
RIGHT = 'User "operator" cannot create resource "{plural}" in API group "{group}" in the namespace'
ACCOUNT = "error looking up service account default/ray: not found"
TRIES_AGAIN = "the operator tries again"
NO_ANSWERS = (
    "NotSent",
    "Paused",
    "OutcomeUnknown",
    "WriteUnconfirmed",
    "UnexpectedResponse",
    "TooManyRequests",
    "ServerTimeout",
    "Timeout",
    "ServiceUnavailable",
    "InternalError",
    "ServerError",
)


def failure(
    reason: str, message: str = "no", *, unknown: bool = False, overdue: bool = False
) -> Failure:
    write = Create(Target(CONFIG_MAPS, "default", "a"), {})
    return Failure(write, reason, message, unknown=unknown, overdue=overdue)


@pytest.mark.parametrize(
    ("reason", "message", "name", "remedy"),
    [
        (
            "Forbidden",
            f"{FORBIDDEN}exceeded quota: team, requested: configmaps=1",
            "QuotaExceeded",
            "ask for a larger quota",
        ),
        (
            "Forbidden",
            f"{FORBIDDEN}failed quota: team: must specify limits.memory for: a",
            "QuotaNeedsResources",
            "set them in the pod template",
        ),
        (
            "Forbidden",
            f"{FORBIDDEN}minimum cpu usage per Pod is 1",
            "LimitRangeViolated",
            "change the resources in the pod template, or ask for another LimitRange",
        ),
        (
            "Forbidden",
            f"{FORBIDDEN}maximum memory usage per Container is 1Gi",
            "LimitRangeViolated",
            "change the resources in the pod template, or ask for another LimitRange",
        ),
        (
            "Forbidden",
            f"{FORBIDDEN}cpu max limit to request ratio per Container is 2",
            "LimitRangeViolated",
            "change the resources in the pod template, or ask for another LimitRange",
        ),
        (
            "Forbidden",
            f'{FORBIDDEN}violates PodSecurity "restricted:latest": no',
            "PodSecurityViolated",
            "set the securityContext of the pod template accordingly",
        ),
        (
            "Forbidden",
            f"{FORBIDDEN}{ACCOUNT}",
            "ServiceAccountNotFound",
            "create the service account default/ray, or correct serviceAccountName",
        ),
        (
            "Forbidden",
            f"{FORBIDDEN}error looking up service account : it has no name",
            "ServiceAccountNotFound",
            "create the service account that is named, or correct serviceAccountName",
        ),
        (
            "BadRequest",
            DENIED,
            "AdmissionDenied",
            "change the template accordingly, or ask for another policy",
        ),
        (
            "Invalid",
            POLICY,
            "AdmissionDenied",
            "change the template accordingly, or ask for another policy",
        ),
        (
            "Forbidden",
            f"{FORBIDDEN}no PriorityClass with name high was found",
            "AdmissionDenied",
            "change the template accordingly, or ask for another policy",
        ),
        (
            "InternalError",
            WEBHOOK,
            "AdmissionUnavailable",
            "repair the service of the webhook, or delete the webhook's configuration",
        ),
        (
            "Forbidden",
            FORBIDDEN + RIGHT.format(plural="configmaps", group=""),
            "Forbidden",
            "allow operator the verb create on configmaps by a Role and its binding",
        ),
        (
            "Forbidden",
            FORBIDDEN + RIGHT.format(plural="rayclusters", group="ray.io"),
            "Forbidden",
            "allow operator the verb create on rayclusters.ray.io by a Role and its binding",
        ),
        ("Forbidden", 'User "operator" cannot escalate resource by hand', "Forbidden", ""),
        (
            "Forbidden",
            (
                f"{FORBIDDEN}cannot set blockOwnerDeletion if an ownerReference refers to a "
                "resource you can't set finalizers on"
            ),
            "Forbidden",
            "allow the operator the verb update on the finalizers of its kinds by a Role",
        ),
        ("Invalid", "spec: Required value", "ObjectInvalid", "correct this field of the template"),
        (
            "RequestEntityTooLarge",
            "limit is 3145728",
            "ObjectTooLarge",
            (
                "make the template smaller: put large values into ConfigMaps or into files of the "
                "image"
            ),
        ),
        (
            "Forbidden",
            f"{FORBIDDEN}the namespace is being terminated",
            "NamespaceTerminating",
            "create it in another namespace",
        ),
        ("NamespaceTerminating", "no", "NamespaceTerminating", "create it in another namespace"),
        (DELETED_AGAIN, "somebody deletes it", "RepeatedlyDeleted", ""),
        ("NotFound", 'namespaces "x" not found', "WriteRefused", TRIES_AGAIN),
        *((reason, "no", "ApiServerUnavailable", TRIES_AGAIN) for reason in NO_ANSWERS),
    ],
)
def test_each_refusal_has_a_reason_and_a_remedy(reason: str, message: str, name: str, remedy: str):
    refused = failure(reason, message)
    assert refusal_of(refused).name == name
    assert remedy_of(refused) == remedy


def test_what_has_no_namespace_needs_a_cluster_role():
    write = Create(Target(NODES, "", "a"), {})
    refused = Failure(write, "Forbidden", RIGHT.format(plural="nodes", group=""))
    remedy = "allow operator the verb create on nodes by a ClusterRole and its binding"
    assert remedy_of(refused) == remedy


def test_a_deletion_that_is_refused_has_no_template_to_change():
    refused = Failure(Delete(Target(CONFIG_MAPS, "default", "a"), "u"), "BadRequest", DENIED)
    assert remedy_of(refused) == "ask for another policy, or for one that exempts the operator"


def test_the_error_of_an_earlier_create_is_told_as_a_new_one():
    target = Target(CONFIG_MAPS, "default", "a")
    assert refused_create(target, CreateError("Invalid", "no")) == Failure(
        Create(target, {}), "Invalid", "no"
    )


def test_what_a_pause_quotes_was_said_about_another_request():
    assert refusal_of(failure("Paused", WEBHOOK)) is reasons.API_SERVER_UNAVAILABLE


@pytest.mark.parametrize(
    ("overdue", "name"), [(False, "ApiServerUnavailable"), (True, "WriteUnconfirmed")]
)
def test_an_unknown_outcome_is_a_reason_of_its_own_after_a_while(*, overdue: bool, name: str):
    refused = failure("Odd", unknown=True, overdue=overdue)
    assert refusal_of(refused).name == name
    assert remedy_of(refused) == TRIES_AGAIN


def test_a_kind_may_name_the_field_instead():
    words = {reasons.QUOTA_EXCEEDED: "lower replicas"}
    quota, invalid = failure("Forbidden", "exceeded quota: team"), failure("Invalid")
    assert remedy_of(quota, words) == "lower replicas"
    assert remedy_of(invalid, words) == "correct this field of the template"


def test_a_sentence_without_a_remedy_stays_as_it_is():
    assert with_remedy("cannot be created: no", "") == "cannot be created: no"
    assert with_remedy("cannot be created: no", "ask") == "cannot be created: no; ask"


NOW = datetime(2026, 8, 20, 10, tzinfo=UTC)
FLOOR = "minimum memory usage per Container is 512Mi, but request is 200Mi"
FULL = "exceeded quota: q, requested: cpu=1, used: cpu=1, limited: cpu=1"
NOBODY = 'error looking up service account a/b: serviceaccount "b" not found'


def event(note: str, second: int = 0, *, reason: str = "FailedCreate", **more: Any) -> Any:
    last = f"2026-08-20T10:00:{second:02}Z"
    return {"reason": reason, "note": note, "deprecatedLastTimestamp": last} | more


@pytest.mark.parametrize(
    ("note", "expected", "kind"),
    [
        (
            f'Error creating: pods "j-x7k2p" is forbidden: {FLOOR}',
            f"the pod is forbidden: {FLOOR}",
            reasons.LIMIT_RANGE_VIOLATED,
        ),
        (
            f'create Pod phi-0 in StatefulSet phi failed error: pods "phi-0" is forbidden: {FULL}',
            f"the pod is forbidden: {FULL}",
            reasons.QUOTA_EXCEEDED,
        ),
        (
            f'Error creating: pods "j-x" is forbidden: {NOBODY}',
            f"the pod is forbidden: {NOBODY}",
            reasons.SERVICE_ACCOUNT_MISSING,
        ),
        (
            'Error creating: pods "j-x" is forbidden: violates PodSecurity "restricted:latest": x',
            'the pod is forbidden: violates PodSecurity "restricted:latest": x',
            reasons.POD_SECURITY_VIOLATED,
        ),
        (
            'Error creating: admission webhook "a.b" denied the request: no',
            'admission webhook "a.b" denied the request: no',
            reasons.ADMISSION_DENIED,
        ),
        (
            'Error creating: Internal error occurred: failed calling webhook "a.b": refused',
            'Internal error occurred: failed calling webhook "a.b": refused',
            reasons.ADMISSION_UNAVAILABLE,
        ),
        (
            'Error creating: Pod "j-x" is invalid: spec.containers[0].image: Required value',
            "the pod is invalid: spec.containers[0].image: Required value",
            reasons.OBJECT_INVALID,
        ),
        (
            'Error creating: pods "j-x" is forbidden: something new',
            "the pod is forbidden: something new",
            reasons.ADMISSION_DENIED,
        ),
    ],
)
def test_what_refused_a_pod_is_told_without_names_that_change(
    note: str, expected: str, kind: reasons.Reason
):
    said = last_refusal([event(note)])
    assert said == expected
    assert refusal_of(refused_pod(ObjectMeta(name="j", namespace="d"), said)) is kind


def test_the_last_word_counts_however_it_is_dated():
    series = {"lastObservedTime": "2026-08-20T10:00:30.000000Z"}
    events = [
        event("Error creating: old", 20),
        event("Error creating: newest", 10, series=series),
        {
            "reason": "FailedCreate",
            "note": "Error creating: b",
            "eventTime": "2026-08-20T10:00:05Z",
        },
        event("Back-off", 59, reason="BackoffLimitExceeded"),
    ]
    assert last_refusal(events) == "newest"
    created = event("Created pod: j-x", 31, reason="SuccessfulCreate")
    assert last_refusal([*events, created]) == "", "it has a pod since"
    assert last_refusal([]) == ""


def test_events_are_read_after_some_seconds_and_then_seldom():
    creator = ObjectMeta(
        name="j", namespace="d", uid="u", creation_timestamp="2026-08-20T10:00:00Z"
    )
    assert next_look(creator, None) == NOW + timedelta(seconds=5)
    known = FailedCreate(NOW + timedelta(seconds=6))
    assert next_look(creator, known) == NOW + timedelta(seconds=36)
    assert next_look(ObjectMeta(name="j"), None) is None
    assert (events_of(creator, NOW).namespace, events_of(creator, NOW).uid) == ("d", "u")
