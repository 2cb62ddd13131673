"""What each response to a write means, and what is recorded of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.apimachinery.metadata import OWNER_UID
from controller.kube.errors import Conflict, NotSent, OutcomeUnknown, Status
from controller.kube.objects import KubeObject
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.expectation import reference_of
from controller.runtime.failed_groups import LONGEST_QUOTE, WriteOutcome, WriteResult
from controller.runtime.kind import NAMESPACE_TERMINATING, CreateError
from controller.runtime.plan import Create, Failure, JsonPatch, Replace, Write
from controller.runtime.writer import Writer
from tests.runtime.fences import SwitchableFence
from tests.runtime.kit import OWNER, child, create, delete, patch, status_error, target
from tests.runtime.recording import RecordingClient, RecordingExpectations

OBJ = child("a", 7)
NAMED = (CONFIG_MAPS, "default", "a")
CREATE, DELETE, PATCH = create(), delete(), patch(colour="red")
JSON_PATCH = JsonPatch(target(), "uid-a", ({"op": "add", "path": "/data/colour", "value": "red"},))
REPLACE = Replace(target(), "uid-a", {"data": {"colour": "red"}})
CHANGES = [PATCH, JSON_PATCH, REPLACE]
LOST = OutcomeUnknown("reset")
CONFLICT = status_error(409, "Conflict")
EXISTS = status_error(409, "AlreadyExists")
MISSING = status_error(404, "NotFound")
REFUSED = status_error(403, "Forbidden", message="no right")
INVALID = status_error(422, "Invalid", message="too wide")


class Desk:
    def __init__(self, *responses: Any, known: KubeObject | None = None) -> None:
        self.client: Any = RecordingClient(*responses)
        self.expectations: Any = RecordingExpectations({target(): known} if known else {})
        self.fence = SwitchableFence()
        self.writer = Writer(self.client, self.expectations, fence=self.fence)

    async def perform(self, write: Write, **options: Any) -> WriteResult:
        return await self.writer.perform(OWNER, write, **options)

    def told(self, write: Write) -> list[tuple[Any, ...]]:
        """What was recorded after the expectation, without the write itself."""
        (name, first), *others = self.expectations.told
        assert (name, first) == ("expect", write)
        assert all(each[1] == write for each in others)
        return [(name, *rest) for name, _, *rest in others]


async def test_a_silent_server_is_told_of_as_a_failure_that_may_last():
    desk, told = Desk(OBJ), list[Failure]()
    await desk.perform(PATCH, on_silence=told.append)
    desk.client.on_silence(OutcomeUnknown("no answer"))
    assert told == [Failure(PATCH, "OutcomeUnknown", "no answer", unknown=True, overdue=True)]


def owned(write: Create = CREATE, **metadata: Any) -> Create:
    return replace(write, body={"metadata": {**write.body["metadata"], **metadata}})


async def test_a_secret_is_merged_into_the_request_alone():
    desk, write = Desk(OBJ), replace(CREATE, secret=lambda: {"stringData": {"token": "t"}})
    await desk.perform(write)
    assert desk.client.requests[0][-1] == {**CREATE.body, "stringData": {"token": "t"}}
    assert desk.told(write) == [("confirm", OBJ, True)]


def with_source(write: Any) -> Any:
    return replace(write, reads=target("source"), secret=lambda found: {"data": {"a": found["b"]}})


async def test_a_secret_is_made_of_the_object_that_it_reads():
    desk, write = Desk({"b": "secret"}, OBJ), with_source(CREATE)
    await desk.perform(write)
    read, (*_, sent) = desk.client.requests
    assert read == ("get_raw", CONFIG_MAPS, "default", "source")
    assert sent["data"]["a"] == "secret"
    raw = {"metadata": {"uid": "uid-a", "name": "a"}, "data": {}}
    desk, write = Desk(raw, {"b": "secret"}, OBJ), with_source(REPLACE)
    assert (await desk.perform(write)).outcome is WriteOutcome.DONE
    assert desk.client.requests[-1][-1]["data"] == {"a": "secret", "colour": "red"}


@pytest.mark.parametrize("write", [with_source(CREATE), with_source(REPLACE)])
async def test_a_secret_that_cannot_be_made_fails_the_write_and_sends_nothing(write: Write):
    def fail(found: Any) -> Any:
        raise ValueError(f"{found} is no authority")

    assert isinstance(write, Create | Replace)
    raw = [{"metadata": {"uid": "uid-a", "name": "a"}}] if isinstance(write, Replace) else []
    desk = Desk(*raw, "this")
    result = await desk.perform(replace(write, secret=fail))
    assert (result.outcome, str(result.error)) == (WriteOutcome.FAILED, "this is no authority")
    assert {each[0] for each in desk.client.requests} == {"get_raw"}


@pytest.mark.parametrize("body", [{"metadata": {"generateName": "a-"}}, {"metadata": None}, {}])
async def test_a_create_must_have_the_name_that_the_planner_chose(body: dict[str, Any]):
    desk = Desk()
    with pytest.raises(ValueError, match=r"^default/a must be created under exactly this name$"):
        await desk.perform(replace(CREATE, body=body))
    assert desk.expectations.told == []


@pytest.mark.parametrize(
    ("returned", "requested", "mismatch", "blocking"),
    [
        ({"labels": {"widget": "g"}}, {}, "label widget", False),
        ({"labels": None}, {"labels": {"b": "1", "a": "2"}}, "labels a, b", False),
        ({"owner_references": ()}, {}, "owner reference", True),
        ({"owner_references": (), "labels": {}}, {}, "label widget and owner reference", True),
        ({"owner_references": (), "labels": {}}, {"ownerReferences": None}, "label widget", False),
    ],
)
async def test_what_admission_changed_is_named_and_blocks_if_the_owner_is_lost(
    returned: dict[str, Any], requested: dict[str, Any], mismatch: str, *, blocking: bool
):
    metadata = msgspec.structs.replace(OBJ.metadata, **returned)
    obj, write = msgspec.structs.replace(OBJ, metadata=metadata), owned(**requested)
    desk = Desk(obj)
    assert (await desk.perform(write)).outcome is WriteOutcome.DONE
    sentence = (
        f"admission changed {mismatch} of configmaps default/a; exempt the operator's objects "
        "from that webhook, then delete the object"
    )
    assert desk.told(write) == [
        ("confirm", obj, True),
        ("admission_mismatch", sentence, blocking),
    ]


async def test_the_label_of_an_object_in_a_namespace_asks_for_no_owner():
    desk, write = Desk(OBJ), owned(labels={OWNER_UID: "another"}, ownerReferences=None)
    await desk.perform(write)
    assert [told[0] for told in desk.told(write)] == ["confirm", "admission_mismatch"]
    assert desk.told(write)[1][-1] is False, "only a label is missing"


async def test_a_name_that_is_free_again_is_planned_again():
    desk = Desk(EXISTS, MISSING)
    result = await desk.perform(CREATE)
    assert result == WriteResult(CREATE, WriteOutcome.CONFLICT, error=EXISTS)
    assert result.failure is None
    assert desk.told(CREATE) == [("mark_failed",)]


async def test_whose_object_has_this_name_is_unknown_if_it_cannot_be_read():
    desk = Desk(EXISTS, REFUSED)
    result = await desk.perform(CREATE)
    assert result == WriteResult(CREATE, WriteOutcome.UNKNOWN, error=EXISTS)
    failure = Failure(CREATE, "AlreadyExists", "AlreadyExists", unknown=True)
    assert desk.told(CREATE) == [("mark_unknown", failure)]


async def test_a_delete_has_the_uid_as_precondition_and_its_options():
    desk = Desk(OBJ)
    write = replace(DELETE, grace_seconds=5, propagation="Foreground")
    assert await desk.perform(write) == WriteResult(write, WriteOutcome.DONE, OBJ)
    options = {"uid": "uid-a", "grace_seconds": 5, "propagation": "Foreground"}
    assert desk.client.requests == [("delete", *NAMED, options)]
    assert desk.told(write) == [("confirm_delete", OBJ)]


@pytest.mark.parametrize(
    "responses", [(MISSING,), (CONFLICT, MISSING), (CONFLICT, child("a", uid="another"))]
)
async def test_a_delete_of_what_is_gone_or_replaced_has_succeeded(responses: tuple[Any, ...]):
    desk = Desk(*responses)
    assert await desk.perform(DELETE) == WriteResult(DELETE, WriteOutcome.DONE)
    assert desk.client.requests[1:] == [("get", *NAMED)] * (len(responses) - 1)
    assert desk.told(DELETE) == [("confirm_gone",)]


async def test_a_delete_that_conflicts_although_the_object_is_the_same_has_failed():
    desk = Desk(CONFLICT, OBJ)
    result = await desk.perform(DELETE)
    assert result == WriteResult(DELETE, WriteOutcome.FAILED, OBJ, CONFLICT)
    assert desk.told(DELETE) == [("precondition_failed", OBJ)]


async def test_a_merge_patch_is_sent_with_its_preconditions():
    wanted = {"metadata": {"annotations": {"k": "v"}}, "status": {"ready": True}}
    write = replace(PATCH, patch=wanted, subresource="status", resource_version="6")
    desk = Desk(OBJ)
    assert await desk.perform(write) == WriteResult(write, WriteOutcome.DONE, OBJ)
    preconditions = {"annotations": {"k": "v"}, "uid": "uid-a", "resourceVersion": "6"}
    sent = {"metadata": preconditions, "status": {"ready": True}}
    assert desk.client.requests == [("merge_patch", *NAMED, sent, {"subresource": "status"})]
    assert wanted["metadata"] == {"annotations": {"k": "v"}}, "the plan is a value"
    assert desk.told(write) == [("confirm", OBJ)]


PRESENT = {"metadata": {"name": "a", "uid": "uid-a", "resourceVersion": "6"}, "data": {"size": "1"}}


async def test_a_replacement_is_the_live_object_with_what_is_wanted():
    desk = Desk(PRESENT, OBJ)
    assert await desk.perform(REPLACE) == WriteResult(REPLACE, WriteOutcome.DONE, OBJ)
    wanted = {**PRESENT, "data": {"size": "1", "colour": "red"}}
    assert desk.client.requests == [("get_raw", *NAMED), ("replace", *NAMED, wanted)]
    assert desk.told(REPLACE) == [("confirm", OBJ)]


async def test_a_replacement_of_what_is_as_wanted_sends_nothing():
    desk = Desk({**PRESENT, "data": {"colour": "red"}})
    assert await desk.perform(REPLACE) == WriteResult(REPLACE, WriteOutcome.DONE)
    assert desk.client.requests == [("get_raw", *NAMED)]
    assert desk.told(REPLACE) == [("mark_failed",)]


async def test_a_replacement_must_not_rename():
    desk = Desk(PRESENT)
    write = replace(REPLACE, merge={"metadata": {"name": "b"}})
    with pytest.raises(ValueError, match=r"^a change must not rename default/a$"):
        await desk.perform(write)
    assert desk.told(write) == [("mark_failed",)]


async def test_a_replacement_of_another_object_of_that_name_is_a_conflict():
    other = child("a", uid="uid-b")
    desk = Desk({**PRESENT, "metadata": {"name": "a", "uid": "uid-b"}}, other)
    result = await desk.perform(REPLACE)
    assert (result.outcome, result.obj) == (WriteOutcome.CONFLICT, other)
    assert isinstance(result.error, Conflict)
    message = "configmaps default/a was replaced by an object with uid uid-b"
    assert result.error.status == Status(409, "Conflict", message)
    assert desk.told(REPLACE) == [("precondition_failed", other)]


@pytest.mark.parametrize("write", CHANGES)
@pytest.mark.parametrize("error", [CONFLICT, MISSING, INVALID])
async def test_a_change_of_what_is_gone_is_planned_again(write: Write, error: Exception):
    desk = Desk(error, MISSING, known=OBJ)
    assert await desk.perform(write) == WriteResult(write, WriteOutcome.CONFLICT, error=error)  # type: ignore[arg-type]
    assert desk.client.requests[1:] == [("get", *NAMED)]
    assert desk.told(write) == [("confirm_gone",)]


@pytest.mark.parametrize(
    ("error", "known", "found", "outcome"),
    [
        (CONFLICT, OBJ, OBJ, WriteOutcome.CONFLICT),
        (INVALID, OBJ, OBJ, WriteOutcome.FAILED),
        (INVALID, None, OBJ, WriteOutcome.CONFLICT),
        (INVALID, child("a", 6), OBJ, WriteOutcome.CONFLICT),
        (INVALID, child("a", uid="b"), child("a", uid="b"), WriteOutcome.CONFLICT),
    ],
    ids=["conflict", "invalid", "not cached", "changed", "replaced"],
)
async def test_an_invalid_change_is_a_failure_only_if_the_object_is_as_it_was_planned_for(
    error: Any, known: Any, found: Any, outcome: WriteOutcome
):
    desk = Desk(error, found, known=known)
    assert await desk.perform(PATCH) == WriteResult(PATCH, outcome, found, error)
    assert desk.told(PATCH) == [("precondition_failed", found)]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (INVALID, WriteOutcome.FAILED),
        (CONFLICT, WriteOutcome.CONFLICT),
    ],
)
async def test_what_was_read_after_the_last_attempt_is_not_read_again(
    error: Any, outcome: WriteOutcome
):
    desk = Desk(error, known=OBJ)
    desk.expectations.refuted = True
    assert await desk.perform(PATCH) == WriteResult(PATCH, outcome, error=error)
    assert len(desk.client.requests) == 1
    assert desk.told(PATCH) == [("mark_failed",)]


@pytest.mark.parametrize(
    ("write", "error", "known", "is_read"),
    [
        (patch(revision="6", colour="red"), CONFLICT, OBJ, False),
        (patch(revision="7", colour="red"), CONFLICT, OBJ, True),
        (patch(revision="8", colour="red"), CONFLICT, OBJ, True),
        (patch(revision="6", colour="red"), CONFLICT, None, True),
        (patch(revision="6", colour="red"), INVALID, OBJ, True),
        (patch(revision="6", colour="red"), MISSING, OBJ, True),
        (PATCH, CONFLICT, OBJ, True),
        (JSON_PATCH, CONFLICT, OBJ, True),
    ],
    ids=["newer", "equal", "older", "unknown", "invalid", "missing", "unconditional", "json"],
)
async def test_after_a_conflict_a_newer_object_in_the_caches_is_planned_for_without_a_read(
    write: Write, error: Any, known: Any, is_read: bool
):
    desk = Desk(error, OBJ, known=known)
    result = await desk.perform(write)
    assert desk.client.requests[1:] == ([("get", *NAMED)] if is_read else [])
    if not is_read:
        assert result == WriteResult(write, WriteOutcome.CONFLICT, error=error)
        assert desk.told(write) == [("mark_failed",)]


@pytest.mark.parametrize("refuted", [False, True])
async def test_a_status_that_is_not_found_although_the_object_exists_names_the_definition(
    *, refuted: bool
):
    desk = Desk(MISSING, OBJ, known=OBJ)
    desk.expectations.refuted = refuted
    result = await desk.perform(replace(PATCH, subresource="status"))
    assert result.outcome is WriteOutcome.FAILED
    assert "configmaps has no subresource status: install" in str(result.error)


@pytest.mark.parametrize("refuted", [False, True])
async def test_what_is_missing_is_looked_for_again(*, refuted: bool):
    desk = Desk(MISSING, MISSING, known=OBJ)
    desk.expectations.refuted = refuted
    await desk.perform(PATCH)
    assert desk.told(PATCH) == [("confirm_gone",)]


async def test_the_primary_object_is_not_looked_for_again_and_again():
    desk = Desk(MISSING, known=OBJ)
    desk.expectations.refuted = True
    own = replace(PATCH, uid=OWNER.uid)
    assert (await desk.perform(own)).outcome is WriteOutcome.FAILED
    assert len(desk.client.requests) == 1


async def test_a_change_whose_object_cannot_be_read_has_failed():
    desk = Desk(INVALID, LOST)
    result = await desk.perform(PATCH)
    assert result == WriteResult(PATCH, WriteOutcome.FAILED, error=INVALID)
    assert result.failure == Failure(PATCH, "Invalid", "too wide")
    assert desk.told(PATCH) == [("mark_failed",)]


@pytest.mark.parametrize("length", [LONGEST_QUOTE - 1, LONGEST_QUOTE, LONGEST_QUOTE + 1])
async def test_a_failure_quotes_the_beginning_of_what_a_server_says_at_length(length: int):
    words = "a" * length
    result = await Desk(status_error(422, "Invalid", message=words)).perform(CREATE)
    quoted = words if length <= LONGEST_QUOTE else f"{'a' * (LONGEST_QUOTE - 3)}..."
    assert result.failure == Failure(CREATE, "Invalid", quoted)


@pytest.mark.parametrize("write", [CREATE, DELETE, *CHANGES])
@pytest.mark.parametrize("repetition", [False, True])
async def test_a_write_whose_response_was_lost_is_unknown(write: Write, *, repetition: bool):
    desk = Desk(LOST)
    result = await desk.perform(write, repetition=repetition)
    assert result == WriteResult(write, WriteOutcome.UNKNOWN, error=LOST)
    failure = Failure(write, "OutcomeUnknown", "reset", unknown=True)
    assert result.failure == failure
    assert desk.told(write) == [("mark_unknown", failure)]


@pytest.mark.parametrize("write", [DELETE, *CHANGES])
async def test_a_write_that_was_refused_has_failed(write: Write):
    desk = Desk(REFUSED)
    result = await desk.perform(write)
    assert result == WriteResult(write, WriteOutcome.FAILED, error=REFUSED)  # type: ignore[arg-type]
    assert result.failure == Failure(write, "Forbidden", "no right")
    assert desk.told(write) == [("mark_failed",)]


async def test_the_refusal_of_a_create_is_kept_for_the_planner():
    desk = Desk(REFUSED)
    assert (await desk.perform(CREATE)).outcome is WriteOutcome.FAILED
    kept = CreateError("Forbidden", "no right")
    assert desk.told(CREATE) == [("mark_failed",)]
    assert desk.expectations.create_errors == {reference_of(CREATE.target): kept}


async def test_a_create_that_was_not_sent_leaves_nothing_for_the_planner():
    desk = Desk(NotSent("no route"))
    result = await desk.perform(CREATE)
    assert result.failure == Failure(CREATE, "NotSent", "no route")
    assert desk.told(CREATE) == [("mark_failed",)]


async def test_if_a_repetition_is_refused_the_first_attempt_is_still_unknown():
    desk = Desk(REFUSED)
    result = await desk.perform(CREATE, repetition=True)
    assert result == WriteResult(CREATE, WriteOutcome.FAILED, error=REFUSED)  # type: ignore[arg-type]
    failure = Failure(CREATE, "Forbidden", "no right", unknown=True)
    assert desk.told(CREATE) == [("mark_unknown", failure)]
    kept = CreateError("Forbidden", "no right")
    assert desk.expectations.create_errors == {reference_of(CREATE.target): kept}


async def test_a_namespace_that_is_being_deleted_takes_no_creates():
    ending = status_error(403, "Forbidden", cause=NAMESPACE_TERMINATING, message="it ends")
    desk = Desk(ending, ending)
    result = await desk.perform(CREATE)
    assert result == WriteResult(CREATE, WriteOutcome.NAMESPACE_TERMINATING, error=ending)
    assert result.failure == Failure(CREATE, "NamespaceTerminating", "it ends")
    kept = CreateError("NamespaceTerminating", "it ends")
    assert desk.told(CREATE) == [("mark_failed",)]
    assert desk.expectations.create_errors == {reference_of(CREATE.target): kept}
    assert (await desk.perform(PATCH)).outcome is WriteOutcome.FAILED


async def test_a_write_that_ends_with_an_error_of_our_own_has_failed():
    desk = Desk(KeyError("a"))
    with pytest.raises(KeyError):
        await desk.perform(CREATE)
    assert desk.told(CREATE) == [("mark_failed",)]


async def test_who_does_not_lead_sends_and_expects_nothing():
    desk = Desk()
    desk.fence.leads = False
    result = await desk.perform(CREATE)
    assert result.failure == Failure(CREATE, "NotSent", "this process does not lead")
    assert result == WriteResult(CREATE, WriteOutcome.FAILED, error=result.error)
    assert desk.client.requests == []
    assert desk.expectations.told == [("mark_failed", CREATE)]


async def test_a_write_ends_before_the_lease_does():
    desk = Desk(OBJ)
    desk.fence.left = 0.0
    assert (await desk.perform(CREATE)).outcome is WriteOutcome.UNKNOWN
