"""The event about an object that cannot be written."""

from __future__ import annotations

from dataclasses import replace

from controller.runtime.plan import Event, Failure, JsonPatch
from controller.runtime.reconcile.writer import UnwritableObjects
from tests.runtime.kit import patch, target

METADATA = patch()
STATUS = replace(METADATA, subresource="status")


def refused(write: object = METADATA, message: str = "no right, request 101") -> Failure:
    return Failure(write, "Forbidden", message)  # type: ignore[arg-type]


def test_the_event_names_the_part_the_reason_and_what_follows():
    objects = UnwritableObjects()
    note = (
        "cannot write the {} of this object, so what it shows is out of date: "
        "Forbidden: no right, request 101; the operator tries again"
    )
    for write, part in ((METADATA, "metadata"), (STATUS, "status")):
        event = Event("Warning", "FailedUpdate", "Update", note.format(part))
        assert objects.refused("uid", refused(write)) == event


def test_a_patch_of_any_form_without_subresource_is_one_of_the_metadata():
    objects = UnwritableObjects()
    event = objects.refused("uid", refused(JsonPatch(target(), "uid-a", ())))
    assert event is not None
    assert "the metadata of" in event.note


def test_the_same_refusal_is_said_once_for_each_part_and_object():
    objects = UnwritableObjects()
    assert objects.refused("uid", refused())
    assert objects.refused("uid", refused(message="no right, request 102")) is None
    assert objects.refused("uid", refused(STATUS))
    assert objects.refused("another uid", refused())
    assert objects.refused("uid", refused(message="a policy forbids it"))


def test_a_part_that_was_written_meanwhile_is_reported_again_and_no_other():
    objects = UnwritableObjects()
    objects.refused("uid", refused())
    objects.refused("uid", refused(STATUS))
    objects.written("uid", METADATA)
    assert objects.refused("uid", refused(STATUS)) is None
    assert objects.refused("uid", refused())
    objects.written("uid", STATUS)
    assert objects.refused("uid", refused()) is None
    assert objects.refused("uid", refused(STATUS))


def test_nothing_is_kept_of_objects_that_can_be_written_or_are_gone():
    objects = UnwritableObjects()
    objects.written("never refused", METADATA)
    objects.refused("written", refused())
    objects.written("written", METADATA)
    objects.refused("gone", refused())
    objects.forget("gone")
    objects.forget("never known")
    assert objects._refusals == {}
