"""RayServices under the definitions of KubeRay, and with the rights of the chart or of KubeRay."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from controller.testing.faults import JournalEntry
from tests.integration.definitions import put_in_place
from tests.integration.harness import RunningOperator, World
from tests.integration.rayservices import Services, live_and_die
from tests.integration.test_rights import restricted
from tests.integration.test_rights_of_jobs import (
    BUDGETS,
    HISTORY,
    Limited,
    Rules,
    rules_of_kuberay,
    rules_of_the_chart,
)

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

KUBERAY_CRDS = Path(
    os.environ.get("MANTA_KUBERAY_CRDS", Path(__file__).parents[3] / "shared" / "crds")
)


@pytest.mark.vital
@pytest.mark.parametrize(
    ("rules", "without"),
    [(rules_of_the_chart, set()), (rules_of_kuberay, {f"list {HISTORY}", f"list {BUDGETS}"})],
    ids=["chart", "kuberay"],
)
async def test_the_rights_are_enough_for_services(
    world: World, rules: Callable[[], Rules], without: set[str]
):
    services = Services(world)
    if world.server is not None:
        world.server.audit.authorizer = partial(Limited.allows, rules())
        operator = services.start_operator()
        refused = refusals(operator)
        await live_and_die(services)
    else:
        transport = await restricted(world, rules())
        operator = services.start_operator(transport=transport)
        refused = refusals(operator)
        try:
            await live_and_die(services)
        finally:
            await operator.kill()
            await transport.aclose()
    assert set(refused) <= without


def refusals(operator: RunningOperator) -> list[str]:
    """Resources of the requests that are refused from now on."""
    found: list[str] = []

    def note(entry: JournalEntry) -> None:
        if entry.outcome == "403":
            found.append(f"{entry.attributes.verb} {entry.attributes.resource}")

    operator.transport.on_answer.append(note)
    return found


@pytest.mark.embedded_only
async def test_kuberays_definitions_serve_as_well(world: World):
    for plural in ("rayservices", "rayclusters"):
        file = KUBERAY_CRDS / f"ray.io_{plural}.yaml"
        if not file.exists():
            pytest.skip(f"SKIPPED, NOT PASSED: KubeRay's definitions are not at {KUBERAY_CRDS}")
        await put_in_place(world, yaml.load(file.read_text(), Loader=yaml.CSafeLoader))
    await world.settle(2)
    services = Services(world)
    services.start_operator()
    await live_and_die(services)
    reported = await world.events_about("RayService", "svc")
    assert "DefinitionIncomplete" not in [reason for reason, _ in reported]
