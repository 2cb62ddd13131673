"""The debug page names objects, and holds no value of any: neither a secret nor a variable."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.command.kinds import KindSettings, kinds_of
from controller.kube.resources import SECRETS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.dashboard import Head
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.dashboard.client import DashboardClient
from controller.ray.dashboard.transport import DashboardRequest, DashboardResponse
from controller.runtime.debug import PageContent
from controller.runtime.election import ThreadedElection
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import World, example_cluster
from tests.integration.rays import Rays, job_manifest

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

WORDS = ("opensesame", "swordfish", "shibboleth", "mellon", "alohomora", "abracadabra")
"""Values that objects carry; without digits, since words with digits are folded anyway."""

ANNOTATION, VARIABLE, RUNTIME, ENTRYPOINT, SECRET, TOKEN = WORDS
QUOTES = " ".join(WORDS)
FORBIDDEN, INVALID = (403, "Forbidden"), (422, "Invalid")
FAILING, BUSY = (500, "InternalError"), (429, "TooManyRequests")
SAID = {
    "quoted": (INVALID, f'Pod "x" is invalid: env[0].value: Invalid value: "{QUOTES}": no'),
    "structure": (INVALID, f"spec: Invalid value: core.EnvVar{{Name:KEY, Value:{QUOTES}}}: no"),
    "map": (FORBIDDEN, f"metadata.annotations: no, given map[example.com/key:{QUOTES}]"),
    "assignment": (FAILING, f"the variable PASSWORD={QUOTES} is none"),
    "webhook": (FORBIDDEN, f'admission webhook "policy" denied the request: {QUOTES} is refused'),
    "cut": (BUSY, f'"{QUOTES}'),
    "escaped": (FAILING, f'no: "\\"{QUOTES}\\""'),
    "lines": (INVALID, f"no:\n  value: |\n    {QUOTES}\n"),
}


def with_values(manifest: dict[str, Any]) -> dict[str, Any]:
    """The object with a value in an annotation, and in a variable of its head."""
    manifest["metadata"]["annotations"] = {"example.com/key": ANNOTATION}
    spec = manifest["spec"].get("rayClusterSpec", manifest["spec"])
    (container,) = spec["headGroupSpec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "PASSWORD", "value": VARIABLE}]
    return manifest


async def quoting(_request: DashboardRequest) -> DashboardResponse:
    """A dashboard that quotes what it was given, in words of its own."""
    return DashboardResponse(500, "text/plain", f"env vars of the job: {QUOTES}".encode())


async def connect(_head: Head) -> DashboardClient:
    return DashboardClient(quoting, token=TOKEN)


async def page_of(world: World, rules: list[Rule]) -> PageContent:
    """The page of an operator with every kind, after two minutes in which these rules held."""
    rays = Rays(world)
    await rays.open()
    actors = DashboardActors(connect, clock=world.loop, wall=world.wall, rng=random.Random(1))
    running = world.start_operator(kinds=kinds_of(KindSettings.from_environment(None, {}), actors))
    election: Any = ThreadedElection(None)  # type: ignore[arg-type]  it never begins
    election._elector = SimpleNamespace(
        is_leader=lambda: True, time_left=lambda: 9.0, holder="a", problem=f'no "{TOKEN}"'
    )
    running.operator.debug.add("leader", election.snapshot)
    running.operator.debug.add("probes", actors.snapshot)
    secret = {"metadata": {"name": "mine"}, "stringData": {"password": SECRET}}
    await world.user.create(
        SECRETS, world.namespace, {"apiVersion": "v1", "kind": "Secret"} | secret
    )
    job = job_manifest(
        runtimeEnvYAML=f"env_vars: {{KEY: {RUNTIME}}}", entrypoint=f"python job.py {ENTRYPOINT}"
    )
    await world.user.create(RAYJOBS, world.namespace, with_values(job))
    await world.user.create(RAYCLUSTERS, world.namespace, with_values(example_cluster("before")))
    await world.settle(60)
    running.transport.rules = rules
    await world.user.create(RAYCLUSTERS, world.namespace, with_values(example_cluster("after")))
    await world.settle(60)
    return running.operator.debug.read()


def words_on(page: PageContent) -> list[str]:
    text = msgspec.json.encode(page).decode()
    return [word for word in WORDS if word in text]


@pytest.mark.parametrize(("status", "said"), SAID.values(), ids=SAID)
async def test_nothing_that_an_object_carries_or_a_server_quotes_is_on_the_page(
    world: World, status: tuple[int, str], said: str
):
    page = await page_of(world, [Rule(ErrorResponse(*status, said))])
    assert page.controllers is not None
    assert page.informers is not None
    assert page.probes is not None
    failing = [
        each.cause for controller in page.controllers.items for each in controller.backing_off.items
    ]
    assert any(failing), "the operator has been told"
    assert any(each.cause for each in page.probes.items)
    assert words_on(page) == []
    assert page.unreadable == {}
