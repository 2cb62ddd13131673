"""However much a server says, what the user can do about it stands after its words."""

from __future__ import annotations

import pytest

from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import World
from tests.integration.test_failing_keys import CREATE, KINDS, begin, ready, warnings

LONG = "label team is required, " * 500
DENIED = ErrorResponse(
    403, "Forbidden", f'admission webhook "policy.example.com" denied the request: {LONG}'
)
REMEDY = "change the template accordingly, or ask for another policy"

pytestmark = pytest.mark.embedded_only


@pytest.mark.parametrize("kind", ["cluster", "job", "service", "cron", "fleet"])
async def test_a_long_refusal_leaves_room_for_the_remedy(world: World, kind: str):
    failing = KINDS[kind]
    schedule = {"schedule": "* * * * *"} if kind == "cron" else {}
    await begin(world, kind, rules=[Rule(DENIED, failing.creates, CREATE)], **schedule)
    await world.settle(110 if kind == "cron" else 60)
    message = (await ready(world, failing.resource, failing.condition))["message"]
    told = [note for _, note in await warnings(world, failing.resource.kind)]
    assert told
    for text in (message, *told):
        assert "policy.example.com" in text
        assert text.endswith(REMEDY)
