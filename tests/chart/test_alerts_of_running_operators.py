"""Faults of real processes fire their alerts in a real Prometheus; the runbooks find the faults.

The alerts are the chart's in a thirtieth of their time. Each operator is scraped as if it ran in a
namespace of its own. The commands are those of the alert's paragraph in docs/operations.md.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct, field

from tests.chart.helm import ROOT
from tests.chart.prometheus import (
    JOB,
    PROMTOOL,
    alert_groups,
    alerts,
    needs_prometheus,
    needs_promtool,
)
from tests.chart.provoked import hastened
from tests.chart.running_prometheus import Prometheus, prometheus
from tests.e2e.processes import Process, manta, manta_dev, needs_kubectl
from tests.e2e.processes import until as reached
from tests.integration.fleets import fleet_manifest
from tests.integration.harness import example_cluster
from tests.integration.rays import job_manifest
from tests.integration.rayservices import service_manifest
from tests.integration.rolling import rolling_manifest
from tests.ports import free_port

WORKS, STANDS_BY, LIMITED = "works", "stands-by", "limited"
"""Namespaces of operators."""

SERVED, FULL = "served", "full"
"""Namespaces of objects; the second has a quota without room."""

SILENT = {"annotations": {"sim.manta.dev/ray": "silent"}}
"""Of a head whose dashboard does not answer."""

ELSEWHERE = {
    "MantaEventLoopBlocked": "it needs a process that starves",
    "MantaQueueWaits": "it needs hundreds of slow reconciles",
    "MantaReconcilePanics": "only a fault of Manta raises",
    "MantaReconcileStuck": "a reconcile is cancelled after two minutes",
    "MantaWatchSilent": "a watch is silent for minutes",
    "RayClusterGPUsUnused": "a cluster is unused for an hour",
    "RayJobDisrupted": "it needs Ray",
    "RayServiceUpgradeStuck": "it needs Ray",
}
"""Alerts that test_provoked_alerts.py and test_alerts_about_objects.py fire, in virtual time."""


class Find(Struct, frozen=True):
    """What fires, and what following its runbook shows.

    Attributes:
        namespace: its label.
        shows: words of the cause, all of them in what the runbook's commands print.
        labels: its other labels but for the job and the severity.
    """

    alert: str
    namespace: str
    shows: tuple[str, ...]
    labels: dict[str, str] = field(default_factory=dict)


def named(name: str) -> dict[str, str]:
    return {"name": name}


FOUND_AT_ONCE = [
    Find("MantaOtherOperator", WORKS, ("pod served/kuberay-operator",), {"kind": "kuberay"}),
    Find(
        "MantaFeatureGateWithoutEffect",
        WORKS,
        ("feature_gate.without_effect", "RayClusterStatusConditions", "reason"),
        named("RayClusterStatusConditions"),
    ),
    Find("MantaRequestsForbidden", WORKS, ("exceeded quota: none",), {"method": "POST"}),
    Find(
        "MantaReconcileErrors",
        WORKS,
        ('"result":"failed"', "exceeded quota: none", '"name":"example-0"'),
        {"controller": "raycluster-controller"},
    ),
    Find("MantaDashboardsUnreachable", WORKS, ("dashboard.failing", SERVED)),
    Find(
        "MantaObjectsUnreadable",
        WORKS,
        ("object.unreadable", "served/deep", "levels"),
        {"resource": "rayclusters"},
    ),
    Find("RayClusterNotReady", FULL, ("QuotaExceeded", "exceeded quota"), named("example-0")),
    Find("RayClusterFleetNotReady", FULL, ("fleet-0-", "QuotaExceeded"), named("fleet")),
    Find("RayJobNotStarted", FULL, ("job-", "QuotaExceeded"), named("job")),
    Find("RayServiceNotReady", FULL, ("exceeded quota",), named("svc")),
    Find(
        "RayClusterUpgradeStuck", SERVED, ("does not answer", "RayDoesNotAnswer"), named("rolling")
    ),
    Find("RayClusterFleetUpgradeStuck", SERVED, ("ContainersNotReady", "fleet-"), named("fleet")),
    Find("MantaNoLeader", STANDS_BY, ("kuberay-operator-5d9_1",)),
    Find(
        "MantaCachesNotSynced",
        LIMITED,
        ('cannot list resource \\"rayclusters\\"', "system:serviceaccount:limited:manta"),
        {"resource": "rayclusters"},
    ),
]
UNCONFIRMED = Find("MantaWritesUnconfirmed", WORKS, ())
SERVER_GONE = Find("MantaApiServerErrors", WORKS, ())
DOWN = Find("MantaDown", LIMITED, ("operator.failed", 'cannot list resource \\"rayclusters\\"'))


def test_every_alert_is_fired_by_a_running_operator_or_elsewhere():
    found = {each.alert for each in (*FOUND_AT_ONCE, UNCONFIRMED, SERVER_GONE, DOWN)}
    assert found | ELSEWHERE.keys() == alerts().keys()
    assert not found & ELSEWHERE.keys()


class Site:
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.server, self.kubectl = stack.enter_context(manta_dev(folder, "--no-operator"))
        self.operators: dict[str, Process] = {}
        self.ports: dict[str, int] = {}

    def create_namespaces(self, *names: str) -> None:
        for name in names:
            self.kubectl("create", "namespace", name)

    def apply(self, namespace: str, *manifests: dict[str, Any]) -> None:
        text = yaml.safe_dump_all(manifests)
        self.kubectl("-n", namespace, "apply", "-f", "-", stdin=text)

    def start(self, namespace: str, *arguments: str, kubeconfig: Path | None = None) -> None:
        port = free_port()
        options = (
            f"--kubeconfig={kubeconfig or self.kubectl.kubeconfig}",
            f"--metrics-address=127.0.0.1:{port}",
            "--health-address=",
            "--log-format=json",
            *arguments,
        )
        started = manta(self._folder, "run", *options, name=namespace)
        self.operators[namespace] = self._stack.enter_context(started)
        self.ports[namespace] = port

    def watch(self) -> Prometheus:
        groups = [
            group | {"name": f"{group['name']}-{namespace}"}
            for namespace in self.ports
            for group in alert_groups(namespace=namespace)
        ]
        return self._stack.enter_context(prometheus(self._folder, self.ports, hastened(groups)))

    def kubeconfig_of(self, account: str, namespace: str) -> Path:
        """A kubeconfig of a new service account without any right."""
        self.kubectl("-n", namespace, "create", "serviceaccount", account)
        config = self.kubectl.json("config", "view", "--raw")
        token = self.kubectl("-n", namespace, "create", "token", account).strip()
        config["users"][0]["user"] = {"token": token}
        path = self._folder / f"kubeconfig-of-{account}"
        path.write_text(yaml.safe_dump(config))
        return path

    def follow(self, find: Find) -> str:
        """What the commands of the alert's runbook print."""
        told = [self._run(command, find) for command in runbook(find.alert)]
        assert told, find
        return "\n".join(told)

    def _run(self, command: str, find: Find) -> str:
        words = {"NAMESPACE": find.namespace, "JOB": JOB, "NAME": find.labels.get("name", "")}
        program, *arguments = (words.get(word, word) for word in shlex.split(command))
        if " logs " in command:  # its pod runs on no node here
            assert arguments[:4] == ["-n", find.namespace, "logs", f"deployment/{JOB}"]
            return self.operators[find.namespace].err.read_text()
        assert program == "kubectl"
        return self.kubectl(*arguments)


def runbook(alert: str) -> list[str]:
    """The commands of an alert's paragraph that can be run as they stand."""
    page = (ROOT / "docs" / "operations.md").read_text()
    (paragraph,) = re.findall(rf"^### {alert}\n\n(.+?)\n\n", page, re.MULTILINE | re.DOTALL)
    text = paragraph.replace("\n", " ").replace("deployment/JOB", f"deployment/{JOB}")
    return re.findall(r"`(kubectl [^`]+)`", text)


def fire(found: Prometheus, finds: Iterable[Find]) -> None:
    left = {
        frozenset({
            "alertname": find.alert, "namespace": find.namespace, "job": JOB, **find.labels
        }.items()): find
        for find in finds
    }  # fmt: skip

    def are_fired() -> bool:
        for labels in found.firing():
            left.pop(frozenset(labels.items() - {("severity", labels["severity"])}), None)
        return not left

    reached(are_fired, seconds=240, why=lambda: f"{list(left.values())}\n{found.firing()}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_kubectl
@needs_prometheus
@needs_promtool
def test_faults_fire_their_alerts_and_the_runbooks_show_the_faults(site: Site):
    site.create_namespaces(SERVED, FULL, STANDS_BY, LIMITED)
    break_objects(site)
    site.start(
        WORKS,
        f"--namespace={SERVED},{FULL}",
        "--feature-gates=RayClusterStatusConditions=false,RayClusterFleet=true",
    )
    site.start(
        STANDS_BY,
        f"--namespace={STANDS_BY}",
        "--enable-leader-election",
        f"--leader-election-namespace={STANDS_BY}",
    )
    account = site.kubeconfig_of("manta", LIMITED)
    site.start(LIMITED, "--sync-timeout=90", kubeconfig=account)
    found = site.watch()
    break_upgrades(site)

    fire(found, [*FOUND_AT_ONCE, DOWN])
    for find in (*FOUND_AT_ONCE, DOWN):
        shown = site.follow(find)
        assert [words for words in find.shows if words not in shown] == [], (find, shown[-5000:])

    for port in (site.ports[WORKS], site.ports[STANDS_BY]):
        assert complaints_of_promtool(port) == ""

    assert any(freezes(site, found) for _ in range(20))
    fire(found, [UNCONFIRMED])
    assert found.has("manta_expectations_pending > 0")
    site.server.popen.send_signal(signal.SIGCONT)
    site.server.popen.kill()
    fire(found, [SERVER_GONE])
    codes = {each["metric"]["code"] for each in found.query("rest_client_requests_total > 0")}
    assert "<error>" in codes


def freezes(site: Site, found: Prometheus) -> bool:
    """Stop the server while a write is under way; one without a connection is not unconfirmed."""
    site.server.popen.send_signal(signal.SIGSTOP)
    with suppress(AssertionError):
        reached(lambda: found.has("manta_expectations_oldest_seconds > 5"), seconds=20, why=str)
        return True
    site.server.popen.send_signal(signal.SIGCONT)
    site.kubectl("get", "namespaces")
    return False


def complaints_of_promtool(port: int) -> str:
    """What promtool finds wrong with the metrics that are served."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        served = answer.read()
    done = subprocess.run(
        [str(PROMTOOL), "check", "metrics"], input=served, capture_output=True, check=False
    )
    assert served
    return (done.stdout + done.stderr).decode()


def break_objects(site: Site) -> None:
    """Objects that cannot be served, and others that must not be there."""
    site.kubectl("-n", FULL, "create", "quota", "none", "--hard=pods=0")
    site.apply(FULL, *(example_cluster(f"example-{number}") for number in range(8)))
    site.apply(FULL, fleet_manifest(replicas=1), job_manifest(), service_manifest())
    unanswered = service_manifest()
    unanswered["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["metadata"] = SILENT
    site.apply(SERVED, unanswered)
    labels = "app.kubernetes.io/name=kuberay-operator"
    site.kubectl("-n", SERVED, "run", "kuberay-operator", "--image=kuberay", f"--labels={labels}")
    site.kubectl("-n", SERVED, "create", "-f", "-", stdin=yaml.safe_dump(too_deep()))
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "ray-operator-leader"},
        "spec": {"holderIdentity": "kuberay-operator-5d9_1", "leaseDurationSeconds": 3600},
    }
    site.apply(STANDS_BY, lease)


def too_deep() -> dict[str, Any]:
    """A RayCluster with a field that is nested more deeply than the operator reads."""
    cluster = example_cluster("deep")
    within = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    for _ in range(120):
        within["odd"] = within = {}
    return cluster


def break_upgrades(site: Site) -> None:
    """A fleet whose new pods never become ready, and a cluster without a dashboard."""
    fleet = fleet_manifest(replicas=1, progressDeadlineSeconds=20)
    cluster = rolling_manifest(2)
    cluster["metadata"]["name"] = "rolling"
    cluster["spec"]["headGroupSpec"]["template"]["metadata"] = SILENT
    site.apply(SERVED, fleet, cluster)

    def are_ready() -> bool:
        found = site.kubectl.json("-n", SERVED, "get", "rayclusterfleet", "fleet")
        rolling = site.kubectl.json("-n", SERVED, "get", "raycluster", "rolling")
        states = (
            found.get("status", {}).get("readyReplicas"),
            rolling.get("status", {}).get("state"),
        )
        return states == (1, "ready")

    reached(are_ready, why=site.operators[WORKS].text)
    never = {"annotations": {"sim.manta.dev/outcome": "never-ready"}}
    fleet["spec"]["template"]["spec"]["headGroupSpec"]["template"]["metadata"] = never
    cluster["spec"]["workerGroupSpecs"][0]["template"]["metadata"] = never
    site.apply(SERVED, fleet, cluster)
