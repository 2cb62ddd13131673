"""Reports of a pod's status when the API server is ahead, or does not answer."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from controller.kube.errors import Conflict, NotFound, NotSent, Status
from controller.kube.objects import ObjectMeta
from devcluster.nodes.pods import KubeletPod, ReportedPodStatus
from devcluster.processes.pod_managers import StatusManager


class Server:
    """One pod; each write fails as told, or is kept."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.pod = pod(version="2")
        self.writes = 0

    async def get(self, *_):
        return self.pod

    async def merge_patch(self, resource, namespace, name, body, *, subresource):
        self.writes += 1
        if self.failures:
            raise self.failures.pop(0)
        if body["metadata"]["resourceVersion"] != self.pod.metadata.resource_version:
            raise Conflict(Status(409))
        self.pod = replace(self.pod, status=ReportedPodStatus(phase=body["status"]["phase"]))
        return self.pod


def pod(version: str, uid: str = "u") -> KubeletPod:
    return KubeletPod(
        metadata=ObjectMeta(name="p", namespace="n", uid=uid, resource_version=version)
    )


async def settled(server: Server) -> float:
    """Seconds until a report of phase Running has settled."""
    reports = StatusManager(server, pod(version="1"), lambda _: ReportedPodStatus(phase="Running"))
    running = asyncio.create_task(reports.run())
    reports.changed()
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(100):
        await reports.settle()
    running.cancel()
    return asyncio.get_running_loop().time() - began


async def test_a_stale_report_is_made_anew_without_waiting_for_an_event():
    server = Server()
    assert await settled(server) == 0
    assert (server.writes, server.pod.status.phase) == (2, "Running")


async def test_reports_are_tried_again_more_and_more_slowly():
    server = Server(*(NotSent("down") for _ in range(4)))
    assert await settled(server) == pytest.approx(0.2 + 1 + 5 + 5, abs=0.01)
    assert server.pod.status.phase == "Running"


async def test_nothing_is_reported_on_a_pod_that_is_gone_or_another_one():
    server = Server(NotFound(Status(404)))
    await settled(server)
    assert server.writes == 1
    server = Server()
    server.pod = pod(version="2", uid="another")
    await settled(server)
    assert server.pod.status.phase == ""


async def test_what_is_as_it_should_be_is_not_written():
    server = Server()
    reports = StatusManager(server, server.pod, lambda present: present)
    running = asyncio.create_task(reports.run())
    reports.changed()
    await reports.settle()
    running.cancel()
    assert server.writes == 0
