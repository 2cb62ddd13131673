"""The operator does with the chart's rights all that it has to do: no request of its is refused."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.kube.credentials import StaticCredentials
from controller.kube.errors import Forbidden
from controller.kube.http import HttpTransport
from controller.kube.kubeconfig import load_credentials
from controller.kube.resources import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from controller.kube.transport import Transport
from controller.ray.api import RAYCLUSTERS
from devcluster.apiserver.authorization import Attributes
from tests.integration.harness import OPERATOR, REAL_KUBECONFIG, World, example_cluster

pytestmark = pytest.mark.slow


RULES = Path(__file__).parents[2] / "charts" / "manta-operator" / "rules.yaml"


def everything() -> dict[str, Any]:
    """A cluster that has every part that the operator knows how to make."""
    manifest = example_cluster(replicas=1)
    manifest["metadata"]["annotations"] = {
        "ray.io/enable-serve-service": "true",
        "ray.io/gcs-ft-deletion-timeout": "20",
    }
    spec = manifest["spec"]
    spec["rayVersion"] = "2.53.0"
    spec["enableInTreeAutoscaling"] = True
    spec["autoscalerOptions"] = {"version": "v2"}
    spec["authOptions"] = {"mode": "token"}
    spec["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379"}
    spec["networkPolicy"] = {"mode": "DenyAllIngress"}
    spec["headGroupSpec"]["enableIngress"] = True
    ray = spec["headGroupSpec"]["template"]["spec"]["containers"][0]
    ray["ports"] = [{"containerPort": 8000, "name": "serve"}]
    return manifest


class Rights:
    """Answers as RBAC does for the operator; others may do anything.

    Args:
        more: rules besides those that the chart always grants.
    """

    def __init__(self, *more: dict[str, list[str]]) -> None:
        self.refused: list[Attributes] = []
        self._rules: list[dict[str, list[str]]] = [*yaml.safe_load(RULES.read_text()), *more]

    def allows(self, asked: Attributes) -> bool:
        if asked.user_agent != OPERATOR or any(self._covers(rule, asked) for rule in self._rules):
            return True
        self.refused.append(asked)
        return False

    @staticmethod
    def _covers(rule: dict[str, list[str]], asked: Attributes) -> bool:
        return (
            asked.group in rule["apiGroups"]
            and asked.resource in rule["resources"]
            and asked.verb in rule["verbs"]
        )


@pytest.mark.vital
async def test_the_charts_rights_are_enough_for_a_cluster_with_everything(world: World):
    rights = Rights()
    if world.server is not None:
        world.server.audit.authorizer = rights.allows
        world.start_operator()
        await live_and_die(world)
    else:
        transport = await restricted(world)
        operator = world.start_operator(transport=transport)
        try:
            await live_and_die(world)
        finally:
            await operator.kill()
            await transport.aclose()
    assert rights.refused == []


async def live_and_die(world: World) -> None:
    await world.user.create(RAYCLUSTERS, world.namespace, everything())
    await world.eventually(world.is_ready)
    cluster = await world.cluster()
    ready = {c["type"]: c["status"] for c in cluster.status["conditions"]}
    assert ready["Ready"] == "True"
    await world.user.delete(RAYCLUSTERS, world.namespace, "example")
    await world.eventually(world.is_gone)


async def restricted(world: World, rules: list[dict[str, Any]] | None = None) -> HttpTransport:
    """A connection to the real API server as a service account with just these rights.

    Without `rules`: those of the chart.
    """
    assert REAL_KUBECONFIG
    meta = {"name": "manta", "namespace": world.namespace}
    rules = rules or yaml.safe_load(RULES.read_text())
    await world.user.create(SERVICE_ACCOUNTS, world.namespace, {"metadata": meta})
    await world.user.create(ROLES, world.namespace, {"metadata": meta, "rules": rules})
    binding = {
        "metadata": meta,
        "roleRef": {"apiGroup": ROLES.group, "kind": "Role", "name": "manta"},
        "subjects": [{"kind": "ServiceAccount", **meta}],
    }
    await world.user.create(ROLE_BINDINGS, world.namespace, binding)
    path = SERVICE_ACCOUNTS.path(world.namespace, "manta", "token")
    answer = await world.user.request_json("POST", path, body={"spec": {}})
    admin = await load_credentials(kubeconfig=REAL_KUBECONFIG, context=None)
    credentials = StaticCredentials(
        admin.endpoint.url,
        ssl_context=ssl._create_unverified_context(),
        authorization=f"Bearer {answer['status']['token']}",
    )
    transport = HttpTransport(credentials, user_agent=OPERATOR)
    await assert_restricted(world, transport)
    return transport


async def assert_restricted(world: World, transport: Transport) -> None:
    try:
        await world.client("intruder", transport).list(ROLES, "kube-system")
    except Forbidden:
        return
    raise AssertionError("the account may do more than its rules say")
