"""`manta take-over` and `manta hand-back`: whatever fails, one operator runs at the end."""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from controller.command.connection import CommandFailed
from controller.command.operator_deployments import DEPLOYMENTS, ChangeOptions
from controller.command.takeover import Tools, hand_back_with, take_over_with
from controller.kube.errors import NotFound
from controller.kube.resources import PODS
from controller.testing.faults import ErrorResponse, FaultyTransport, Rule
from tests.integration.harness import World

pytestmark = pytest.mark.embedded_only

KUBERAY = {"app.kubernetes.io/component": "kuberay-operator"}
MANTA = {"app.kubernetes.io/instance": "manta", "app.kubernetes.io/name": "manta-operator"}


@dataclass
class FakeHelm:
    """Manta's release; `install` and `uninstall` are noted."""

    installed: bool = False
    fails: bool = False
    hangs: bool = False
    done: list[str] = field(default_factory=list)

    def require(self) -> None:
        pass

    async def is_installed(self) -> bool:
        return self.installed

    async def install(self) -> None:
        self.done.append("install")
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.fails:
            raise CommandFailed("helm could not install Manta")

    async def uninstall(self) -> None:
        self.done.append("uninstall")


@dataclass
class Site:
    """A namespace with KubeRay's operator, and whoever plays its controllers."""

    world: World
    helm: FakeHelm = field(default_factory=FakeHelm)
    plans: list[int] = field(default_factory=lambda: [0, 0])
    outcome: str = "succeed"
    available: bool = True
    stuck: bool = False

    @property
    def options(self) -> ChangeOptions:
        name = "kuberay-operator"
        return ChangeOptions(name, namespace=self.world.namespace, image="registry.example/manta:1")

    async def open(self, name: str, labels: dict[str, str], replicas: int = 1) -> None:
        """Create a Deployment, and its pods as its controller would."""
        container = {"name": "operator", "image": "operator"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
        body["metadata"] |= {"labels": labels}
        await self.world.user.create(DEPLOYMENTS, self.world.namespace, {**body, "spec": spec})
        self.world.background(self._control(name, labels, container))

    async def _control(self, name: str, labels: dict[str, str], container: dict[str, Any]) -> None:
        user, namespace = self.world.user, self.world.namespace
        while True:
            wanted = await self.replicas(name)
            pods = await user.list(PODS, namespace, label_selector=",".join(
                f"{key}={value}" for key, value in labels.items()
            ))  # fmt: skip
            if wanted and not pods.items:
                pod = {"metadata": {"name": f"{name}-pod", "labels": labels}}
                await user.create(PODS, namespace, pod | {"spec": {"containers": [container]}})
            if not wanted and pods.items and not self.stuck:
                await user.delete(PODS, namespace, f"{name}-pod")
            status = {"availableReplicas": wanted if self.available else 0}
            await user.merge_patch(
                DEPLOYMENTS, namespace, name, {"status": status}, subresource="status"
            )
            await asyncio.sleep(0.5)

    async def play_check(self) -> None:
        """Let the pod that runs the image end as `outcome` says."""
        user, namespace = self.world.user, self.world.namespace
        labels = {"sim.manta.dev/outcome": self.outcome, "sim.manta.dev/fail-after": "1"}
        while True:
            found = await user.list(
                PODS, namespace, label_selector="app.kubernetes.io/name=manta-check"
            )
            for pod in found.items:
                if "sim.manta.dev/outcome" not in (pod.metadata.annotations or {}):
                    patch = {"metadata": {"annotations": labels}}
                    await user.merge_patch(PODS, namespace, pod.metadata.name, patch)
            await asyncio.sleep(0.05)

    async def replicas(self, name: str = "kuberay-operator") -> int:
        found = await self.world.user.get(DEPLOYMENTS, self.world.namespace, name)
        return found.spec.replicas

    def tools(self) -> Tools:
        async def plan() -> int:
            sys.stdout.write("RayCluster default/example: nothing to do\n")
            return self.plans.pop(0)

        return Tools(self.world.user, plan, self.helm)  # type: ignore[arg-type]

    async def take_over(self) -> None:
        self.world.background(self.play_check())
        await take_over_with(self.options, self.tools())

    async def no_checks_left(self) -> bool:
        found = await self.world.user.list(
            PODS, self.world.namespace, label_selector="app.kubernetes.io/name=manta-check"
        )
        return not found.items


@pytest.fixture
async def site(world: World) -> Site:
    site = Site(world)
    await site.open("kuberay-operator", KUBERAY, replicas=2)
    return site


async def test_kuberay_stops_only_after_the_image_has_run_and_its_replicas_are_remembered(
    site: Site,
):
    await site.take_over()
    assert await site.replicas() == 0
    assert site.helm.done == ["install"]
    assert site.plans == []
    await site.world.eventually(site.no_checks_left)
    found = await site.world.user.get(DEPLOYMENTS, site.world.namespace, "kuberay-operator")
    assert (found.metadata.annotations or {})["manta.dev/replicas-before-take-over"] == "2"


@pytest.mark.parametrize("plans", [[0, 0], [0, 3], [3]])
async def test_the_plan_is_printed_once_unless_it_names_an_obstacle_the_second_time(
    site: Site, plans: list[int], capsys: pytest.CaptureFixture[str]
):
    site.plans = list(plans)
    with pytest.raises(CommandFailed) if any(plans) else nullcontext():
        await site.take_over()
    printed = capsys.readouterr().out
    assert printed.count("RayCluster default/example") == (2 if plans == [0, 3] else 1)
    assert ("still nothing\n" in printed) is (plans == [0, 0])


@pytest.mark.parametrize("outcome", ["fail", "image-pull-error"])
async def test_an_image_that_does_not_start_stops_everything_before_it_begins(
    site: Site, outcome: str
):
    site.outcome = outcome
    with pytest.raises(CommandFailed, match="manta:1 does not start"):
        await site.take_over()
    assert await site.replicas() == 2
    assert site.helm.done == []
    await site.world.eventually(site.no_checks_left)


@pytest.mark.slow
async def test_an_image_that_takes_too_long_is_given_up(site: Site):
    site.outcome = "hang-pending"
    with pytest.raises(CommandFailed, match="has not started after 120 s"):
        await site.take_over()
    assert await site.replicas() == 2


@pytest.mark.parametrize("plans", [[3], [0, 3]])
async def test_a_plan_that_costs_a_pod_leaves_kuberay_in_charge(site: Site, plans: list[int]):
    site.plans = plans
    with pytest.raises(CommandFailed) as failed:
        await site.take_over()
    assert failed.value.status == 3
    assert await site.replicas() == 2
    assert site.helm.done == []


async def test_a_chart_that_cannot_be_installed_is_removed_and_kuberay_put_back(site: Site):
    site.helm.fails = True
    with pytest.raises(CommandFailed, match="could not install"):
        await site.take_over()
    assert site.helm.done == ["install", "uninstall"]
    assert await site.replicas() == 2


async def test_an_interruption_puts_kuberay_back(site: Site):
    site.helm.hangs = True
    taking = asyncio.create_task(site.take_over())
    await site.world.eventually(lambda: site.helm.done == ["install"])
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert site.helm.done == ["install", "uninstall"]
    assert await site.replicas() == 2


@pytest.mark.parametrize("interrupted", [False, True])
async def test_if_kuberay_cannot_be_put_back_the_command_that_does_it_is_told(
    site: Site, interrupted: bool
):
    site.helm.fails, site.helm.hangs = not interrupted, interrupted
    refusal = ErrorResponse(403, "Forbidden", "not now")
    back = Rule(refusal, "deployments.apps", frozenset({"patch"}), skip=1)
    transport = FaultyTransport(site.world.transport, [back], clock=site.world.loop)
    tools = replace(site.tools(), client=site.world.client("take-over", transport))
    site.world.background(site.play_check())
    taking = asyncio.create_task(take_over_with(site.options, tools))
    if interrupted:
        await site.world.eventually(lambda: site.helm.done == ["install"])
        taking.cancel()
    with pytest.raises(CommandFailed) as failed:
        await taking
    said = str(failed.value)
    why = "interrupted" if interrupted else "helm could not install Manta"
    assert said.startswith(f"{why}; and kuberay-operator could not be put back: ")
    assert "No operator serves the clusters now" in said
    assert said.endswith("scale deployment kuberay-operator --replicas=2")


@pytest.mark.slow
async def test_a_kuberay_that_does_not_stop_is_told_to_go_on(site: Site):
    site.stuck = True
    with pytest.raises(CommandFailed, match="are still there after 120 s"):
        await site.take_over()
    assert await site.replicas() == 2


async def test_what_is_missing_is_said_before_anything_is_done(site: Site):
    for image, words in (("", "--image"), ("manta", "no tag")):
        options = ChangeOptions("kuberay-operator", namespace=site.world.namespace, image=image)
        with pytest.raises(CommandFailed, match=words):
            await take_over_with(options, site.tools())
    site.helm.installed = True
    with pytest.raises(CommandFailed, match="two operators must not run"):
        await take_over_with(site.options, site.tools())
    site.helm.installed = False
    other = ChangeOptions("nobody", namespace=site.world.namespace, image="m:1")
    with pytest.raises(CommandFailed, match="there is no Deployment nobody"):
        await take_over_with(other, site.tools())
    assert await site.replicas() == 2


async def test_back_with_kuberay_it_has_as_many_replicas_as_before(site: Site):
    await site.take_over()
    await site.open("manta-manta-operator", MANTA)
    await hand_back_with(site.options, site.tools())
    assert await site.replicas() == 2
    assert await site.replicas("manta-manta-operator") == 0
    assert site.helm.done == ["install", "uninstall"]
    found = await site.world.user.get(DEPLOYMENTS, site.world.namespace, "kuberay-operator")
    assert not found.metadata.annotations


@pytest.mark.slow
async def test_a_kuberay_that_does_not_start_gives_manta_the_clusters_back(
    site: Site, capsys: pytest.CaptureFixture[str]
):
    await site.take_over()
    await site.open("manta-manta-operator", MANTA)
    site.available = False
    capsys.readouterr()
    with pytest.raises(CommandFailed, match="is not available after 120 s"):
        await hand_back_with(site.options, site.tools())
    assert await site.replicas() == 0
    assert await site.replicas("manta-manta-operator") == 1
    assert capsys.readouterr().err == "manta-manta-operator is scaled to 1 again\n"
    assert site.helm.done == ["install"]


async def test_kuberay_runs_when_a_hand_back_without_the_chart_is_done(site: Site):
    await site.take_over()
    options = replace(site.options, chart=False)
    await hand_back_with(options, site.tools())
    found = await site.world.user.get(DEPLOYMENTS, site.world.namespace, "kuberay-operator")
    assert (found.spec.replicas, found.status.available_replicas) == (2, 2)


async def test_a_kuberay_that_does_not_start_without_the_chart_is_told_with_what_to_do(site: Site):
    await site.take_over()
    site.available = False
    options = replace(site.options, chart=False, timeout=5.0)
    told = (
        r"after 5 s; see kubectl .*\. No operator serves the clusters until it runs; it keeps its 2"
    )
    with pytest.raises(CommandFailed, match=told):
        await hand_back_with(options, site.tools())
    assert await site.replicas() == 2


async def test_manta_that_is_not_installed_cannot_be_removed(site: Site):
    with pytest.raises(CommandFailed, match="not installed in namespace"):
        await hand_back_with(site.options, site.tools())
    with pytest.raises(NotFound):
        await site.replicas("manta-manta-operator")
