"""The debug page and the level of the log of a real process."""

from __future__ import annotations

import http.client
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.runtime.debug import PageContent
from tests.e2e.pages import commands
from tests.e2e.processes import (
    ROOT,
    Kubectl,
    Process,
    manta,
    manta_dev,
    manta_once,
    needs_kubectl,
    until,
)
from tests.ports import free_port

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow]

EXAMPLE = ROOT / "examples" / "raycluster.yaml"
SECRETS = ("hunter2-env", "hunter2-annotation")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with manta_dev(tmp_path_factory.mktemp("cluster"), "--no-operator") as (_, kubectl):
        yield kubectl


def arguments(kubectl: Kubectl, *more: str) -> list[str]:
    silent = ["--health-address=", "--metrics-address=", "--log-format=json"]
    return ["run", f"--kubeconfig={kubectl.kubeconfig}", *silent, *more]


def logged(process: Process, event: str) -> list[dict[str, Any]]:
    """The lines of the log that report this, but for one that is being written."""
    lines = (line for line in process.err.read_text().splitlines() if line.endswith("}"))
    return [each for each in map(msgspec.json.decode, lines) if each["event"] == event]


def has_started(process: Process) -> bool:
    assert process.popen.poll() is None, process.text()
    return bool(logged(process, "manager.started"))


def addresses(process: Process) -> set[str]:
    """Where the process listens, `0100007F:17AC`: Linux writes addresses in hexadecimal."""
    folder = Path(f"/proc/{process.popen.pid}")
    open_files = {str(each.readlink()) for each in (folder / "fd").iterdir()}
    found: set[str] = set()
    for table in ("tcp", "tcp6"):
        for line in (folder / "net" / table).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in open_files:
                found.add(local)
    return found


def on_loopback(port: int) -> str:
    return f"0100007F:{port:04X}"


@needs_kubectl
def test_nothing_listens_unless_a_port_is_given(cluster: Kubectl, tmp_path: Path):
    with manta(tmp_path, *arguments(cluster), name="run") as operator:
        until(lambda: has_started(operator), why=operator.text)
        assert addresses(operator) == set()


@needs_kubectl
def test_the_page_is_served_on_the_loopback_interface_and_without_secrets(
    cluster: Kubectl, tmp_path: Path
):
    port = free_port()
    cluster("apply", "-f", "-", stdin=with_secrets())
    with manta(tmp_path, *arguments(cluster, f"--debug-port={port}"), name="run") as operator:
        until(lambda: has_started(operator), why=operator.text)
        assert addresses(operator) == {on_loopback(port)}

        page = until(lambda: served(port, "example"), why=operator.text)
        names = [each.name for each in page.controllers.items]
        assert "raycluster-controller" in names
        pods = next(each for each in page.informers.items if each.resource == "pods")
        assert (pods.state, pods.connected, pods.objects) == ("Watching", True, 3)
        assert pods.revision
        assert pods.last_list is not None
        assert page.leader.leads
        assert page.log_level == "info"
        until(lambda: served(port).event_loop.lag is not None, why=operator.text)
        places = {each.name: each.place for each in page.tasks.items}
        assert places["informer rayclusters.ray.io"].startswith("controller.kube.http.")
        assert page.unreadable == {}

        body = raw(port)
        secrets = [*SECRETS, *filter(None, tokens(cluster))]
        assert [each for each in secrets if each.encode() in body] == []

        text = manta_once("debug", f"--port={port}")
        assert (text.returncode, text.stderr) == (0, "")
        assert "rayclusters.ray.io" in text.stdout
        assert "\x1b" not in text.stdout
        as_json = manta_once("debug", f"--port={port}", "-o", "json")
        assert msgspec.json.decode(as_json.stdout, type=PageContent).version == page.version


@needs_kubectl
def test_an_object_in_back_off_is_shown_with_its_cause_and_not_its_values(
    cluster: Kubectl, tmp_path: Path
):
    port = free_port()
    cluster("create", "namespace", "limited")
    cluster("-n", "limited", "create", "quota", "none", "--hard=pods=0")
    cluster("-n", "limited", "apply", "-f", "-", stdin=with_secrets())
    with manta(tmp_path, *arguments(cluster, f"--debug-port={port}"), name="run") as operator:
        until(lambda: has_started(operator), why=operator.text)
        failing = until(lambda: backing_off(port), why=operator.text)
        assert failing.key == "limited/example"
        assert failing.failures >= 1
        assert "exceeded quota" in failing.cause
        assert not any(each.encode() in raw(port) for each in SECRETS)
        text = manta_once("debug", f"--port={port}").stdout
        assert "limited/example" in text.partition("IN BACK-OFF")[2]


@needs_kubectl
def test_signals_change_the_level_of_the_log(cluster: Kubectl, tmp_path: Path):
    with manta(tmp_path, *arguments(cluster), name="run") as operator:
        until(lambda: has_started(operator), why=operator.text)
        told: list[tuple[str, str]] = []
        for number, before, after in (
            (signal.SIGUSR1, "info", "debug"),
            (signal.SIGUSR1, "debug", "debug"),
            (signal.SIGUSR2, "debug", "info"),
            (signal.SIGUSR2, "info", "warning"),
            (signal.SIGUSR2, "warning", "error"),
            (signal.SIGUSR2, "error", "error"),
            (signal.SIGUSR1, "error", "warning"),
        ):
            told.append((before, after))
            operator.popen.send_signal(number)
            until(lambda: len(logged(operator, "log.level")) == len(told), why=operator.text)
        lines = logged(operator, "log.level")
        assert [(each["before"], each["after"]) for each in lines] == told


@needs_kubectl
def test_the_command_of_the_manual_changes_the_level_of_the_log(cluster: Kubectl, tmp_path: Path):
    (line,) = (
        line for page, line in commands() if page == "docs/operations.md" and "SIGUSR1" in line
    )
    _, _, in_the_pod = line.partition(" -- ")
    with manta(tmp_path, *arguments(cluster), name="run") as operator:
        until(lambda: has_started(operator), why=operator.text)
        assert in_the_pod.count("os.kill(1,") == 1  # the operator's id in its pod
        here = in_the_pod.replace("os.kill(1,", f"os.kill({operator.popen.pid},")
        subprocess.run(shlex.split(here), check=True)
        (change,) = until(lambda: logged(operator, "log.level"), why=operator.text)
        assert (change["before"], change["after"]) == ("info", "debug")


def test_manta_debug_says_what_to_do_when_nothing_listens():
    port = free_port()
    done = manta_once("debug", f"--port={port}")
    assert (done.returncode, done.stdout) == (1, "")
    for words in (f"--debug-port={port}", "kubectl -n NAMESPACE port-forward", "exec", "debugPort"):
        assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_of_manta_debug_shows_how_to_reach_a_pod():
    text = manta_once("debug", "--help").stdout
    for words in ("port-forward", "exec", "--debug-port", "debugPort", "SIGUSR1", "-o json"):
        assert words in text


def with_secrets() -> str:
    """The example with values that nobody but its owner is to read."""
    cluster = yaml.safe_load(EXAMPLE.read_text())
    cluster["metadata"]["annotations"] = {"example.com/key": "hunter2-annotation"}
    pod = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    pod["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2-env"}]
    return yaml.safe_dump(cluster)


def raw(port: int) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/debug")
        return connection.getresponse().read()
    finally:
        connection.close()


def served(port: int, cluster: str = "") -> Any:
    """The page, once the caches show the pods of that cluster."""
    page = msgspec.json.decode(raw(port), type=PageContent)
    assert page.informers is not None
    pods = next(each for each in page.informers.items if each.resource == "pods")
    return page if not cluster or pods.objects == 3 else None


def backing_off(port: int) -> Any:
    page = served(port)
    (clusters,) = (each for each in page.controllers.items if "raycluster-" in each.name)
    return next(iter(clusters.backing_off.items), None)


def tokens(kubectl: Kubectl) -> list[str]:
    """Tokens with which the operator identifies itself."""
    config = kubectl.json("config", "view", "--raw")
    return [each["user"].get("token", "") for each in config["users"]]
