"""What is remembered of creates that the server refused."""

from __future__ import annotations

import pytest

from controller.kube.errors import OutcomeUnknown
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.kind import NAMESPACE_TERMINATING, CreateError
from controller.runtime.writer import Writer
from tests.runtime.kit import OWNER, Book, Call, ScriptedClient, create, status_error

QUOTA = status_error(403, "Forbidden", message="exceeded quota")


class Desk:
    def __init__(self) -> None:
        self.book, self.client = Book(), ScriptedClient(seconds=0.01)
        self.writer = Writer(self.client, self.book.expectations)

    async def create(self, name: str, error: Exception | None, *, repeat: bool = False) -> None:
        def script(call: Call):
            if error is not None and call.verb == "create":
                raise error
            return self.client.serve(call)

        self.client.script = script
        await self.writer.perform(OWNER, create(name), repetition=repeat)

    def refusal(self, name: str = "a") -> CreateError | None:
        return self.book.expectations.reader.record(OWNER.uid).create_error(
            CONFIG_MAPS, f"default/{name}"
        )


async def test_a_refusal_is_remembered_until_a_create_succeeds():
    desk = Desk()
    assert desk.refusal() is None
    await desk.create("a", QUOTA)
    assert desk.refusal() == CreateError("Forbidden", str(QUOTA))
    assert desk.refusal("b") is None
    await desk.create("a", None)
    assert desk.refusal() is None


async def test_the_last_refusal_counts_and_a_namespace_that_is_going_has_its_own_reason():
    desk = Desk()
    await desk.create("a", QUOTA)
    await desk.create("a", status_error(403, "Forbidden", cause=NAMESPACE_TERMINATING))
    assert desk.refusal().reason == NAMESPACE_TERMINATING


@pytest.mark.parametrize("error", [OutcomeUnknown("cut"), status_error(504, "Timeout")])
async def test_an_unknown_outcome_is_no_refusal(error: Exception):
    desk = Desk()
    await desk.create("a", error)
    assert desk.refusal() is None


async def test_a_repetition_that_is_refused_is_remembered_as_well():
    desk = Desk()
    await desk.create("a", QUOTA, repeat=True)
    assert desk.refusal() is not None
