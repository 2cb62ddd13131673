"""Wrong invocations: each says what to do next, with exit status 2 and without a traceback."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.__main__ import main
from controller.command.connection import with_remedy
from controller.command.manager import main as manager
from controller.kube.errors import (
    Forbidden,
    KubeError,
    NotFound,
    NotSent,
    PathNotFound,
    Paused,
    Status,
    Unauthorized,
)
from tests.ports import free_port

CLUSTER = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: a}\nspec: {}\n"
FILES = {
    "brackets.yaml": "kind: {",
    "binary.yaml": b"\xff\xfe\x00",
    "misspelt.yaml": CLUSTER.replace("RayCluster", "RayClustr"),
    "fleet.yaml": "apiVersion: manta.dev/v1alpha1\nkind: RayClusterFleet\nmetadata: {name: a}\n",
    "group.yaml": CLUSTER.replace("ray.io/v1", "ray.io.v1"),
    "configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    "empty.yaml": "",
    "nameless.yaml": "kind: CustomResourceDefinition\n",
    "text.yaml": "hello\n",
    "cluster.yaml": CLUSTER,
    "nothing.config": "apiVersion: v1\nkind: Config\n",
    "broken.config": "{{{",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with files to name and without a cluster anywhere."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "folder").mkdir()
    (tmp_path / "dead.config").write_text(kubeconfig(f"http://127.0.0.1:{free_port()}"))
    (tmp_path / "nowhere.config").write_text(kubeconfig("https://nowhere.invalid"))
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("socket.getaddrinfo", without_names(socket.getaddrinfo))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kubeconfig(server: str) -> str:
    return yaml.safe_dump(
        {
            "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": server}}],
            "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        }
    )


def without_names(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """A resolver that knows no name and asks no name server for one."""

    def addresses(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *arguments, **options)

    return addresses


@pytest.mark.real_time
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "the following arguments are required: COMMAND\nSee `manta --help`."),
        ("paln", "manta: there is no command paln; did you mean plan?\nSee `manta --help`."),
        ("xyzzy", "there is no command xyzzy; there are run, status, "),
        (
            "rollout unod raycluster/a",
            "manta rollout: there is no command unod; did you mean undo?",
        ),
        ("example rayjbo", "`manta example` lists them; did you mean rayjob?\n"),
        ("dev --nodes 8xH10", "--nodes 8xH10: neither a preset (cpu, spot, 8xH100, tpu-"),
        ("dev --ray --nodes cpu", "--nodes: with --ray or --image the node is this machine"),
        ("--verson", "manta: there is no option --verson; did you mean --version?"),
        ("plan --fil cluster.yaml", "manta plan: there is no option --fil; did you mean --file?"),
        ("plan --offlin=1", "no option --offlin; did you mean --offline?\nSee `manta plan --help`"),
        ("plan -f cluster.yaml more", "manta plan: unexpected: more\nSee `manta plan --help`."),
        ("plan -f cluster.yaml -- --offline", "manta plan: unexpected: "),
        ("plan --zzz", "manta plan: there is no option --zzz\n"),
        ("plan", "one of the arguments -f/--file --all is required"),
        ("plan -f missing.yaml", "cannot read missing.yaml: No such file or directory"),
        ("plan -f https://a.b/c.yaml", "-f/--file: https://a.b/c.yaml is an address; download"),
        ("demo -f https://a.b/c.yaml", "-f/--file: https://a.b/c.yaml is an address; download"),
        ("plan -f brackets.yaml", "brackets.yaml is not YAML"),
        ("plan -f binary.yaml", "binary.yaml is not YAML: incomplete UTF-16 character"),
        ("plan -f text.yaml", "text.yaml holds a document that is no object: 'hello'"),
        ("plan -f folder", "folder holds no .yaml, .yml or .json file"),
        ("plan -f empty.yaml", "empty.yaml holds none of the kinds that can be planned: RayClust"),
        ("plan -f configmap.yaml", "left out ConfigMap a of v1\n"),
        ("plan -f fleet.yaml", "its feature gate is off: --feature-gates RayClusterFleet=true"),
        ("plan -f group.yaml", "left out RayCluster a of ray.io.v1; it is served as ray.io/v1"),
        ("plan -f misspelt.yaml", "left out RayClustr a of ray.io/v1; did you mean RayCluster?"),
        ("plan -f cluster.yaml", "does not exist. Name a file with --kubeconfig or KUBECONFIG"),
        ("plan -f cluster.yaml", "or run in a pod. --offline plans without a cluster.\n"),
        ("plan -f cluster.yaml --kubeconfig gone", "gone does not exist. Name a file with --kube"),
        ("plan -f cluster.yaml --kubeconfig nothing.config", "Choose one with --context"),
        ("plan -f cluster.yaml --kubeconfig broken.config", "broken.config is not valid YAML"),
        ("plan --all --context b --kubeconfig dead.config", "no context 'b' in dead.config. There"),
        ("plan --all --kubeconfig dead.config", ": Connection refused; check that the cluster ru"),
        (
            "plan --all --kubeconfig nowhere.config",
            "nowhere.invalid:443: Name or service not known; check",
        ),
        ("plan --all --offline", "give a manifest with -f, or plan for the cluster without --off"),
        ("plan --all --feature-gates A=true", "there is no feature gate 'A'; there are AllAlpha"),
        ("plan --all --feature-gates RayCronJob", "RayCronJob is ''; it must be true or false"),
        ("run", "Name a file with --kubeconfig or KUBECONFIG, or run in a pod."),
        ("run --leader-election", "no option --leader-election; did you mean --enable-leader-e"),
        ("run --workers 0", "manta: --workers must be at least 1"),
        ("run --metrics-address a", "--metrics-address: not an address of the form host:port: 'a'"),
        ("run --health-address a", "--health-address: not an address of the form host:port: 'a'"),
        ("run --debug-port 65536", "manta: --debug-port must be between 0 and 65535"),
        ("run --page-port 65536", "manta: --page-port must be between 0 and 65535"),
        ("run --sync-timeout 0", "manta: --sync-timeout must be more than 0"),
        ("run --namespace 'a, b'", "--namespace: ' b' is not the name of a namespace"),
        ("debug --port 0", "argument --port: '0' is not a port, 1 to 65535\nSee `manta debug --he"),
        ("debug --port 65536", "'65536' is not a port"),
        ("rollout", "the following arguments are required: COMMAND\nSee `manta rollout --help`."),
        ("rollout status", "the following arguments are required: TYPE/NAME"),
        ("rollout status a --kubeconfig dead.config", "write raycluster/NAME, for example"),
        ("rollout undo job/a --kubeconfig dead.config", "'job' cannot be rolled out; raycluster "),
        ("status raycluser/a --kubeconfig dead.config", "; did you mean raycluster?"),
        ("status jobs --kubeconfig dead.config", "'jobs' cannot be shown; raycluster, rayjob, ray"),
        ("status jobs --kubeconfig dead.config", "; did you mean rayjob?"),
        ("status rayjob/a -A --kubeconfig dead.config", "name one without it, with -n"),
        ("why pd/a --kubeconfig dead.config", "'pd' cannot be explained; pod, raycluster, "),
        ("why pd/a --kubeconfig dead.config", "; did you mean pod?"),
        ("why a --kubeconfig dead.config", "write pod/NAME, for example pod/a"),
        ("status a b c --kubeconfig dead.config", "write raycluster/NAME, for example"),
        ("rollout status raycluster/a --timeout 5", "'5' is not a duration such as 90m or 1h30m"),
        (
            "dev --crds cluster.yaml",
            "--crds cluster.yaml: it holds a RayCluster, and may hold only",
        ),
        ("dev --crds nameless.yaml", "the definition without name cannot be installed: "),
        ("dev --kubeconfig folder", "cannot read the kubeconfig folder: Is a directory\n"),
        ("dev --port 65536", "cannot listen on port 65536: "),
        (
            "dev --name A_b",
            "'A_b' is not a name: use at most 40 lower-case letters, digits and das",
        ),
        ("demo -f configmap.yaml", "configmap.yaml holds a ConfigMap, and this demo takes RayClus"),
        ("demo -f cluster.yaml", "cluster.yaml holds no RayCluster with a worker group to scale"),
        ("demo --kind rayservice-incremental --chart gone/a.svg", "there is no folder gone"),
        ("crds --kind a", "invalid choice: 'a' (choose from"),
        ("take-over", "Name a file with --kubeconfig or KUBECONFIG"),
    ],
)
def test_a_wrong_invocation_says_what_to_do(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
):
    assert status_of(line) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert "Traceback" not in told.err + told.out
    assert "object at 0x" not in told.err


@pytest.mark.real_time
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run --check --kubeconfig dead.config", "could not start here: GET /version: Cannot con"),
        ("rollout status raycluster/a --kubeconfig dead.config", "manta rollout: GET /apis/ray.io"),
        ("why pod/a --kubeconfig dead.config", "manta why: GET /api/v1/"),
        ("status --kubeconfig dead.config", "manta status: GET /apis/ray.io"),
        ("take-over --no-install --kubeconfig dead.config", "check that the cluster runs, and tha"),
    ],
)
def test_a_cluster_that_does_not_answer_is_a_failure_with_a_remedy(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
):
    assert status_of(line) == 1
    told = capsys.readouterr().err
    assert words in told
    assert "check that the cluster runs, and that --kubeconfig and --context choose it" in told


@pytest.mark.real_time
@pytest.mark.usefixtures("folder", "restored_logging")
@pytest.mark.parametrize(("start", "command"), [(main, ["run"]), (manager, [])])
def test_a_gate_that_needs_a_later_kubernetes_lets_nothing_start_without_an_answer(
    start: Callable[[list[str]], int], command: list[str], capsys: pytest.CaptureFixture[str]
):
    gate = "--feature-gates=SidecarSubmitterRestart=true"
    assert start([*command, gate, "--kubeconfig=dead.config"]) == 2
    told = capsys.readouterr().err
    assert "needs Kubernetes 1.35, and the version of the server cannot be read: GET /vers" in told


def status_of(line: str) -> int:
    """The exit status, whichever way the command ends."""
    try:
        return main(shlex.split(line))
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (NotSent("GET /x: refused"), "check that the cluster runs"),
        (Unauthorized(Status(401, "Unauthorized", "no")), "renew the credentials"),
        (Forbidden(Status(403, "Forbidden", "no")), "ask for this right"),
        (PathNotFound(Status(404, "", "no")), "manta crds | kubectl apply"),
        (NotFound(Status(404, "NotFound", "no")), ""),
        (Paused("the server asked for a pause", retry_after=9.0), ""),
    ],
)
def test_an_error_of_the_api_server_has_the_remedy_that_helps_most(error: KubeError, remedy: str):
    text = with_remedy(error)
    assert text.startswith(str(error))
    assert remedy in text
    assert bool(remedy) == (text != str(error))
