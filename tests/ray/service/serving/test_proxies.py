"""Which proxies are asked, and what follows from their answers for the label of their pods."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.kube.objects import Pod
from controller.ray.api.labels import DRAINING_SINCE
from controller.ray.dashboard.probes import ProbeObservation
from controller.ray.dashboard.serve import ProxyHealth
from controller.ray.service.observation import ServiceObservation
from controller.ray.service.proxies import (
    accepts_requests,
    gated_pods,
    label_pods,
    proxy_on,
)
from controller.ray.settings import RaySettings
from tests.ray.service.kit import EMPTY, NOW, SETTINGS, WELL, pod, scene

DRAINED = ProbeObservation(ProxyHealth(healthy=False, message="drained"), NOW)
DEAD = replace(WELL, failing_since=NOW, error="refused")
UNKNOWN = ProbeObservation(None, NOW)


def labelled(seen: ServiceObservation, settings: RaySettings = SETTINGS) -> dict[str, str]:
    return {
        write.target.name: write.patch["metadata"]["labels"]["ray.io/serve"]
        for write in label_pods(seen)
    }


def asked(seen: ServiceObservation, settings: RaySettings = SETTINGS) -> list[str]:
    assert seen.active is not None
    return [each.metadata.name for each in gated_pods(seen.active, settings)]


@pytest.mark.parametrize(
    ("proxy", "before", "after"),
    [
        (WELL, "false", "true"),
        (WELL, "true", None),
        (DRAINED, "true", "false"),
        (DEAD, "false", None),
        (UNKNOWN, "true", None),
        (UNKNOWN, "false", None),
        (None, "true", None),
    ],
)
def test_the_label_of_the_head_follows_its_proxy(
    proxy: ProbeObservation | None, before: str, after: str | None
):
    found = labelled(scene(pod("head", serve=before), proxy=proxy))
    assert found == ({"head": after} if after else {})


def test_a_proxy_that_does_not_answer_loses_the_label_if_another_endpoint_is_left():
    head, worker = pod("head", serve="true"), pod("worker-1", serve="true")
    assert labelled(scene(head, worker, proxy=DEAD)) == {"head": "false"}
    unready = pod("worker-1", serve="true", ready=False)
    for others in ((), (unready,), (pod("worker-1", serve="false"),)):
        assert labelled(scene(head, *others, proxy=DEAD)) == {}


def test_of_several_endpoints_that_do_not_answer_all_keep_the_label():
    pods = pod("head", serve="true"), pod("worker-1", serve="true")
    seen = scene(*pods, own_readiness=True, proxy=DEAD)
    assert seen.active is not None
    assert labelled(seen) == {}
    assert not accepts_requests(seen.active)


def test_a_head_of_a_serve_without_applications_gets_no_requests():
    assert labelled(scene(pod("head", serve="true"), answer=EMPTY)) == {"head": "false"}


def test_an_excluded_head_is_not_asked_and_gets_no_requests():
    seen = scene(pod("head", serve="true"), excludeHeadPodFromServeSvc=True)
    assert (asked(seen), labelled(seen)) == ([], {"head": "false"})


def test_workers_are_asked_only_if_the_kubelet_does_not_ask_them():
    pods = pod("head", serve="true"), pod("worker-1", serve="true")
    assert asked(scene(*pods)) == ["head"]
    assert asked(scene(*pods, own_readiness=True)) == ["head", "worker-1"]
    assert asked(scene(*pods), RaySettings(probes=False)) == ["head", "worker-1"]


def test_the_label_of_a_worker_that_is_asked_follows_its_proxy():
    pods = pod("head", serve="false"), pod("worker-1", serve="true")
    found = labelled(scene(*pods, own_readiness=True, proxy=DRAINED))
    assert found == {"worker-1": "false"}


def test_a_worker_that_drains_gets_no_requests_back_though_its_proxy_still_answers():
    draining = pod("worker-a", serve="false", annotations={DRAINING_SINCE: "2026-01-01T00:00:00Z"})
    seen = scene(pod("head-a", serve="true"), draining, own_readiness=True)
    assert labelled(seen) == {}


def test_a_proxy_is_asked_on_the_port_named_serve_or_8000():
    for port, expected in ((9000, 9000), (None, 8000)):
        seen = scene(pod("head", serve="false", port=port))
        assert seen.active is not None
        proxy = proxy_on(seen.active, seen.active.pods[0])
        assert proxy is not None
        assert (proxy.port, proxy.address, proxy.pod) == (expected, "10.0.0.7", "head")
        assert (proxy.pod_uid, proxy.restarts, proxy.token_secret) == ("uid of head", 2, "")


@pytest.mark.parametrize(
    ("head", "worker", "excluded", "accepts"),
    [
        (pod("head", serve="true"), None, False, True),
        (pod("head", serve="false"), None, False, False),
        (pod("head", serve="true", ready=False), pod("worker", serve="true"), False, False),
        (pod("head", serve="false"), pod("worker", serve="true"), True, True),
        (pod("head", serve="false"), pod("worker", serve="true", ready=False), True, False),
        (pod("head", serve="false"), pod("worker", serve="false"), True, False),
    ],
)
def test_a_cluster_accepts_requests_if_its_endpoints_are_ready(
    head: Pod, worker: Pod | None, excluded: bool, accepts: bool
):
    workers = () if worker is None else (worker,)
    seen = scene(head, *workers, excludeHeadPodFromServeSvc=excluded)
    assert seen.active is not None
    assert accepts_requests(seen.active) == accepts
