"""NetworkPolicies of a cluster from creation to end, on whichever API server there is."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.resources import NETWORK_POLICIES
from controller.ray.api import RAYCLUSTERS, FeatureGates
from controller.ray.cluster import RayClusterKind
from controller.ray.settings import RaySettings
from devcluster.apiserver.authorization import Attributes
from tests.integration.harness import OPERATOR, World, example_cluster

Json = dict[str, Any]

HEAD, WORKERS = "example-head", "example-workers-workers"
DNS: Json = {"ports": [{"port": 53}, {"port": "dns", "protocol": "UDP"}]}
ASKED: Json = {"worker": {"egressRules": [DNS]}, "head": {"egressRules": [DNS]}}


def manifest(policy: Json | None = None) -> Json:
    body = example_cluster(replicas=1)
    body["spec"]["networkPolicy"] = policy
    return body


async def policies(world: World) -> dict[str, Json]:
    listed = await world.user.request_json("GET", NETWORK_POLICIES.path(world.namespace))
    return {each["metadata"]["name"]: each["spec"] for each in listed["items"]}


async def patch(world: World, policy: Json | None) -> None:
    body = {"spec": {"networkPolicy": policy}}
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", body)


@pytest.mark.vital
async def test_on_a_living_cluster_policies_come_follow_and_go_and_no_pod_is_touched(world: World):
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, manifest())
    await world.eventually(world.is_ready)
    pods = set(world.journal.present)

    async def are_there(modes: str) -> bool:
        found = await policies(world)
        return found.keys() == {HEAD, WORKERS} and all(
            " ".join(spec["policyTypes"]) == modes for spec in found.values()
        )

    await patch(world, ASKED)
    await world.eventually(lambda: are_there("Ingress Egress"))
    good = await policies(world)
    rule = good[WORKERS]["egress"][1]
    assert rule["ports"][0] == {"port": 53, "protocol": "TCP"}, "the API server fills this in"
    written = (await world.user.get(NETWORK_POLICIES, world.namespace, HEAD)).metadata
    await world.settle(2)
    kept = (await world.user.get(NETWORK_POLICIES, world.namespace, HEAD)).metadata
    assert kept.resource_version == written.resource_version, "at rest nothing is written"

    opened: Json = {"spec": {"ingress": [{}], "podSelector": {"matchLabels": {"only": "these"}}}}
    await world.user.merge_patch(NETWORK_POLICIES, world.namespace, HEAD, opened)
    await world.user.delete(NETWORK_POLICIES, world.namespace, WORKERS)
    await world.becomes(lambda: policies(world), good)
    await patch(world, {"mode": "DenyAllIngress", "worker": None, "head": None})
    await world.eventually(lambda: are_there("Ingress"))
    assert "egress" not in (await policies(world))[WORKERS]
    await patch(world, None)
    await world.becomes(lambda: policies(world), lambda found: not found)
    assert set(world.journal.present) == pods
    told = (f"{did}NetworkPolicy" for did in ("Created", "Updated", "Deleted"))
    await world.events_about("RayCluster", "example", *told)


@pytest.mark.embedded_only
async def test_without_the_right_to_list_policies_nothing_starts_until_it_is_granted(world: World):
    assert world.server is not None
    withheld = {"list"}

    def allows(asked: Attributes) -> bool:
        is_ours = asked.user_agent == OPERATOR and asked.resource == NETWORK_POLICIES.plural
        return not (is_ours and asked.verb in withheld)

    world.server.audit.authorizer = allows
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, manifest(ASKED))
    await world.becomes(world.condition, lambda found: found["reason"] == "Forbidden")
    await world.settle(60)
    assert not world.journal.present
    withheld.clear()
    withheld.add("create")

    async def names_the_verb() -> bool:
        words = "the verb create on networkpolicies.networking.k8s.io"
        return words in (await world.condition())["message"]

    await world.eventually(names_the_verb, seconds=90)
    await world.settle(60)
    assert not world.journal.present
    withheld.clear()
    await world.eventually(world.is_ready, seconds=400)
    assert (await policies(world)).keys() == {HEAD, WORKERS}


@pytest.mark.embedded_only
async def test_an_operator_whose_gate_is_off_keeps_what_is_asked_for_and_removes_the_rest(
    world: World,
):
    operator = world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, manifest(ASKED))
    await world.eventually(world.is_ready)
    pods = set(world.journal.present)
    await operator.kill()
    gates = FeatureGates.parse("RayClusterNetworkPolicy=false")
    world.start_operator(kind=RayClusterKind(RaySettings(feature_gates=gates)))

    async def is_refused() -> bool:
        message = (await world.condition())["message"]
        return "needs the feature gate RayClusterNetworkPolicy" in message

    await world.eventually(is_refused)
    await world.settle(5)
    assert (await policies(world)).keys() == {HEAD, WORKERS}, "it fails closed"
    await patch(world, None)
    await world.becomes(lambda: policies(world), lambda found: not found)
    assert set(world.journal.present) == pods
