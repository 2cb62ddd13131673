"""What events tell of pods that an object could not create."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller.kube.objects import ObjectMeta
from controller.runtime import reasons
from controller.runtime.kind import FailedCreate
from controller.runtime.reasons import (
    events_of,
    last_refusal,
    next_look,
    refusal_of,
    refused_pod,
)

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
