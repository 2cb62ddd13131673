"""What a RayService asks and says while one of its writes fails for long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from controller.testing.faults import Rule
from tests.integration.harness import World
from tests.integration.rayservices import Services, serve_config, service_manifest, with_image
from tests.integration.test_failing_keys import MOST, SORTS, TEN_MINUTES, requests

CLUSTERS, SERVICES = "rayclusters.ray.io", "services"
CREATE, PATCH, DELETE = frozenset({"create"}), frozenset({"patch", "update"}), frozenset({"delete"})
TEXTS = {"forbidden": "not by policy", "failing": "etcd said no", "overloaded": "try again"}

pytestmark = [pytest.mark.embedded_only, pytest.mark.slow, pytest.mark.timeout(300)]


def nothing(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest


def other_image(manifest: dict[str, Any]) -> dict[str, Any]:
    return with_image(manifest, "rayproject/ray:2.53.0")


def other_config(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest | {"spec": manifest["spec"] | {"serveConfigV2": serve_config("other")}}


@dataclass(frozen=True, slots=True)
class Failure:
    """A write that fails.

    Attributes:
        resource: of the object that is written.
        verbs: of the write.
        edit: what the user does that makes it due; `nothing` for one that is due at first.
    """

    resource: str
    verbs: frozenset[str]
    edit: Callable[[dict[str, Any]], dict[str, Any]] = nothing


FAILURES = {
    "the first cluster": Failure(CLUSTERS, CREATE),
    "the pending cluster": Failure(CLUSTERS, CREATE, other_image),
    "the stored config": Failure(CLUSTERS, PATCH, other_config),
    "the replaced cluster": Failure(CLUSTERS, DELETE, other_image),
    "the stable services": Failure(SERVICES, CREATE),
    "their selectors": Failure(SERVICES, PATCH, other_image),
    "the serve label": Failure("pods", PATCH),
}


@pytest.mark.parametrize("sort", TEXTS)
@pytest.mark.parametrize("what", FAILURES)
async def test_a_write_that_fails_costs_few_requests_is_named_and_harms_no_other(
    world: World, what: str, sort: str
):
    failure, services = FAILURES[what], Services(world)
    operator = services.start_operator()
    rule = Rule(SORTS[sort], failure.resource, failure.verbs, name=lambda n: n.startswith("svc"))
    manifest = service_manifest(rayClusterDeletionDelaySeconds=1)
    if failure.edit is nothing:
        operator.transport.rules = [rule]
        await services.create(manifest)
    else:
        await services.deployed(manifest)
        operator.transport.rules = [rule]
        await services.edit(failure.edit(manifest))
    await services.create(service_manifest("other"))
    await services.serving("other", seconds=60)
    await world.settle(30)
    since = len(operator.transport.journal.entries)
    await world.settle(TEN_MINUTES)
    assert len(requests(operator, since)) <= MOST
    assert TEXTS[sort] in said(await services.status())
    operator.transport.rules = []
    await world.settle(120)
    assert TEXTS[sort] not in said(await services.status())
    assert await services.is_ready()


def said(status: dict[str, Any]) -> str:
    """What its conditions say."""
    return " ".join(each["message"] for each in status["conditions"])
