"""Failed writes as reasons of conditions and events."""

from __future__ import annotations

import pytest

from controller.kaito.api.status import failure_event, failure_reason, what_failed
from controller.kube.resources import STATEFUL_SETS
from controller.runtime.plan import Create, Failure, Target

WRITE = Create(Target(STATEFUL_SETS, "default", "phi"), {})
POLICY = 'admission webhook "a.example.com"'
RIGHT = (
    'statefulsets.apps is forbidden: User "operator" cannot create resource "statefulsets" in API '
    'group "apps" in the namespace "default"'
)
WEBHOOK = 'Internal error occurred: failed calling webhook "a.example.com": connection refused'


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Failure(WRITE, "Forbidden", "not by policy"), "Forbidden"),
        (Failure(WRITE, "InternalError", WEBHOOK), "AdmissionUnavailable"),
        (
            Failure(WRITE, "InternalError", WEBHOOK, unknown=True, overdue=True),
            "AdmissionUnavailable",
        ),
        (Failure(WRITE, "Paused", f"after another request: {WEBHOOK}"), "Paused"),
        (Failure(WRITE, "OutcomeUnknown", "reset", unknown=True), "OutcomeUnknown"),
        (Failure(WRITE, "OutcomeUnknown", "reset", unknown=True, overdue=True), "OutcomeUnknown"),
    ],
)
def test_the_reason_names_what_did_not_answer(failure: Failure, reason: str):
    assert failure_reason(failure) == reason


def test_an_event_names_what_was_to_be_done_and_with_what():
    failure = Failure(WRITE, "OutcomeUnknown", "reset", unknown=True)
    assert failure_event(failure) == "FailedToCreateStatefulSet"
    assert what_failed(failure) == (
        "cannot create StatefulSet phi: reset; it is not known whether it was carried out; "
        "the operator tries again"
    )


@pytest.mark.parametrize(
    ("failure", "remedy"),
    [
        (Failure(WRITE, "BadRequest", f"{POLICY} denied the request: no"), "ask for another pol"),
        (Failure(WRITE, "Invalid", "spec.replicas: Invalid value"), "correct the field that lea"),
        (Failure(WRITE, "InternalError", WEBHOOK), "repair the service of the webhook, or delete"),
        (Failure(WRITE, "Forbidden", RIGHT), "allow operator the verb create on statefulsets.apps"),
        (Failure(WRITE, "Conflict", "it was changed"), "the operator tries again"),
    ],
)
def test_after_the_servers_words_it_is_said_what_to_do(failure: Failure, remedy: str):
    said, _, after = what_failed(failure).partition(failure.message)
    assert said == "cannot create StatefulSet phi: "
    assert after.startswith("; ")
    assert remedy in after
