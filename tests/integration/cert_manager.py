"""A stand-in for cert-manager on the embedded server, which issues without keys."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

from controller.apimachinery.conditions import rfc3339
from controller.command.planning.offline import open_definitions
from controller.kube.errors import AlreadyExists, NotFound
from controller.kube.resources import CERTIFICATES, ISSUERS, SECRETS
from tests.integration.harness import World, install_crds

Json = dict[str, Any]


async def install_cert_manager(world: World) -> None:
    """Install its definitions and issue every Certificate of the world's namespace from now on."""
    await install_crds(world, *open_definitions(ISSUERS, CERTIFICATES))
    world.background(_issue_all(world))


async def _issue_all(world: World) -> None:
    while True:
        found = await world.user.request_json("GET", CERTIFICATES.path(world.namespace))
        for each in found["items"]:
            await _issue(world, each)
        await asyncio.sleep(1)


async def _issue(world: World, certificate: Json) -> None:
    meta, spec, namespace = certificate["metadata"], certificate["spec"], world.namespace
    conditions: list[Json] = certificate.get("status", {}).get("conditions", [])
    if [each["observedGeneration"] for each in conditions] == [meta["generation"]]:
        return
    secret = {
        "metadata": {"name": spec["secretName"], "labels": spec["secretTemplate"]["labels"]},
        "data": dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), ""),
    }
    with suppress(AlreadyExists):
        await world.user.create(SECRETS, namespace, secret)
    ready = {"type": "Ready", "status": "True", "observedGeneration": meta["generation"]}
    end = rfc3339(world.wall() + timedelta(days=90))
    status = {"conditions": [ready], "notAfter": end}
    with suppress(NotFound):
        await world.user.merge_patch(
            CERTIFICATES, namespace, meta["name"], {"status": status}, subresource="status"
        )
