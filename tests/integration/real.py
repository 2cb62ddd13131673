"""`make test-real [ARGS=PATH]`: start real control planes, run tests on them, stop them.

`KUBEBUILDER_ASSETS` names the folder with `etcd`, `kube-apiserver` and
`kube-controller-manager`, as controller-runtime's envtest has it. There is no kubelet and no
scheduler: the simulated kubelet is the only node. Tests wait for real seconds most of the time, so
several processes run them, each on a control plane of its own; `MANTA_TEST_SERVERS` says how many
(6 by default). Other arguments are handed to pytest; paths among them replace the tests that are
run by default.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.real_servers import KUBECONFIGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TESTS = ("tests/integration", "tests/devcluster/apiserver", "tests/devcluster/fidelity")
SERVERS = 6
TOKEN = "test-admin"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
START_SECONDS = 60.0
AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
"""
"""What is logged: the requests of service accounts, which tests compare with their rights."""


def main(arguments: Sequence[str]) -> int:
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    missing = [name for name in PROGRAMS if not os.access(Path(assets, name), os.X_OK)]
    if not assets or missing:
        what = f"lacks {', '.join(missing)}" if assets else "is not set"
        sys.stdout.write(
            f"SKIP SKIP SKIP: KUBEBUILDER_ASSETS {what}; NOTHING WAS TESTED on a real API server\n"
        )
        return 0
    count = int(os.environ.get("MANTA_TEST_SERVERS") or SERVERS)
    paths = ["-o", f"testpaths={' '.join(TESTS)}", "-n", str(count), "--dist", "worksteal"]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="manta-real-")))
        kubeconfigs: list[str] = []
        for number in range(count):
            own = folder / str(number)
            own.mkdir()
            kubeconfigs.append(str(stack.enter_context(real_cluster(Path(assets), own))))
        return subprocess.run(
            [sys.executable, "-m", "pytest", *paths, *arguments],
            env=os.environ | {KUBECONFIGS: os.pathsep.join(kubeconfigs)},
            check=False,
        ).returncode


@contextmanager
def real_cluster(
    assets: Path, folder: Path, *, controllers: bool = True, ports: Sequence[int] = ()
) -> Iterator[Path]:
    """A real control plane on loopback; yields the path of an administrator's kubeconfig.

    The file `etcd-address` beside it says where etcd listens. With the `folder` and the four
    `ports` of an earlier one it is the same cluster again, with what etcd's folder holds.
    """
    port, etcd_port, peer_port, manager_port = ports or free_ports(4)
    write_service_account_key(folder)
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    (folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
    kubeconfig = write_kubeconfig(folder, port)
    etcd = f"http://127.0.0.1:{etcd_port}"
    (folder / "etcd-address").write_text(etcd)
    with ExitStack() as stack:
        stack.enter_context(
            program(
                folder,
                assets / "etcd",
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}",
                f"--initial-cluster=default=http://127.0.0.1:{peer_port}",
                "--unsafe-no-fsync",
            )
        )
        stack.enter_context(
            program(
                folder,
                assets / "kube-apiserver",
                f"--etcd-servers={etcd}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--cert-dir={folder / 'certs'}",
                f"--service-account-key-file={folder / 'sa.pub'}",
                f"--service-account-signing-key-file={folder / 'sa.key'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--token-auth-file={folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                f"--audit-policy-file={folder / 'audit-policy.yaml'}",
                f"--audit-log-path={folder / 'audit.log'}",
                "--service-cluster-ip-range=10.0.0.0/16",
                "--disable-admission-plugins=ServiceAccount",
            )
        )
        wait_until_ready(port, folder)
        if controllers:
            stack.enter_context(
                program(
                    folder,
                    assets / "kube-controller-manager",
                    f"--kubeconfig={kubeconfig}",
                    f"--authentication-kubeconfig={kubeconfig}",
                    f"--authorization-kubeconfig={kubeconfig}",
                    "--leader-elect=false",
                    f"--service-account-private-key-file={folder / 'sa.key'}",
                    "--use-service-account-credentials=false",
                    f"--secure-port={manager_port}",
                    "--bind-address=127.0.0.1",
                    "--controllers=*,-nodeipam,-nodelifecycle,-taint-eviction-controller",
                )
            )
        yield kubeconfig


@contextmanager
def program(folder: Path, path: Path, *flags: str) -> Iterator[None]:
    log = (folder / f"{path.name}.log").open("wb")
    process = subprocess.Popen([path, *flags], cwd=folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def wait_until_ready(port: int, folder: Path) -> None:
    context = ssl._create_unverified_context()
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}/readyz", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(request, context=context, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    log = (folder / "kube-apiserver.log").read_text()
    raise SystemExit(f"the API server was not ready within {START_SECONDS:.0f} s:\n{log[-3000:]}")


def write_service_account_key(folder: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "sa.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    (folder / "sa.pub").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def write_kubeconfig(folder: Path, port: int) -> Path:
    server = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "real", "cluster": server}],
                "users": [{"name": "admin", "user": {"token": TOKEN}}],
                "contexts": [
                    {
                        "name": "real",
                        "context": {"cluster": "real", "user": "admin", "namespace": "default"},
                    }
                ],
                "current-context": "real",
            }
        )
    )
    return path


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
