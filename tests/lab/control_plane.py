"""Real control planes on loopback: etcd, an API server, and whatever else a test starts beside it.

with control_plane(folder) as plane, plane.scheduler():
    run("kubectl", "--kubeconfig", plane.kubeconfig, ...)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from msgspec import Struct

from tests.lab.programs import path_of, why_missing
from tests.lab.running import StartError, running, wait_until_ready
from tests.ports import free_ports

SERVERS = ("etcd", "kube-apiserver", "kube-controller-manager")
TOKEN = "test-admin"
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

NODE_CONTROLLERS = ("nodelifecycle", "taint-eviction-controller")
"""Not run by default: between two tests no kubelet reports anything."""


class ControlPlane(Struct, frozen=True):
    """A control plane that runs.

    Attributes:
        folder: has the kubeconfig of an administrator, and a log of each program.
    """

    folder: Path
    server: str
    etcd: str

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @contextmanager
    def program(
        self,
        name: str,
        *flags: str,
        ready: str,
        label: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Iterator[None]:
        """Run one of the lab's programs until the context exits; entered when it is ready.

        Args:
            ready: see `wait_until_ready`.
            label: name of its log, if that of the program is taken.
            environment: variables beside those of this process.
        """
        if missing := why_missing(name):
            raise StartError(missing)
        log = self.folder / f"{label or name}.log"
        with running([path_of(name), *flags], log, environment) as child:
            wait_until_ready(child, log, ready, token=TOKEN)
            yield

    @contextmanager
    def controller_manager(self, *controllers: str, label: str = "", flags: Sequence[str] = ()):
        """Run these controllers; without any, all but those of nodes."""
        [port] = free_ports(1)
        chosen = controllers or ("*", *(f"-{name}" for name in ("nodeipam", *NODE_CONTROLLERS)))
        with self.program(
            "kube-controller-manager",
            *self._secure(port),
            f"--service-account-private-key-file={self.folder / 'sa.key'}",
            "--use-service-account-credentials=false",
            f"--controllers={','.join(chosen)}",
            *flags,
            ready=f"https://127.0.0.1:{port}/healthz",
            label=label,
        ):
            yield

    @contextmanager
    def scheduler(self, *flags: str) -> Iterator[None]:
        [port] = free_ports(1)
        flags = (*self._secure(port), *flags)
        with self.program("kube-scheduler", *flags, ready=f"https://127.0.0.1:{port}/healthz"):
            yield

    @contextmanager
    def cert_manager(self) -> Iterator[None]:
        """Run cert-manager; its definitions must be installed."""
        flag = f"--kubeconfig={self.kubeconfig}"
        with self.program("cert-manager", flag, ready="cert-manager has started"):
            yield

    def _secure(self, port: int) -> tuple[str, ...]:
        return (
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'certs'}",
        )


@contextmanager
def control_plane(
    folder: Path, *, controllers: bool = True, ports: Sequence[int] = (), flags: Sequence[str] = ()
) -> Iterator[ControlPlane]:
    """A real control plane whose files are in `folder`.

    Args:
        folder: a folder that exists. With that and the `ports` of an earlier one it is the same
            cluster again, with what etcd's folder holds.
        controllers: whether a controller manager runs.
        ports: three free ones.
        flags: more arguments of the API server.
    """
    port, etcd_port, peer_port = ports or free_ports(3)
    etcd, peer = (f"http://127.0.0.1:{each}" for each in (etcd_port, peer_port))
    plane = ControlPlane(folder, f"https://127.0.0.1:{port}", etcd)
    _write_files(plane)
    with ExitStack() as stack:
        stack.enter_context(
            plane.program(
                "etcd",
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
                ready=f"{etcd}/health",
            )
        )
        stack.enter_context(
            plane.program(
                "kube-apiserver",
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
                *flags,
                ready=f"{plane.server}/readyz",
            )
        )
        if controllers:
            stack.enter_context(plane.controller_manager())
        yield plane


def plane_in(folder: Path) -> ControlPlane:
    """The control plane that runs with its files in this folder."""
    server, etcd = (folder / "addresses").read_text().split()
    return ControlPlane(folder, server, etcd)


def _write_files(plane: ControlPlane) -> None:
    folder = plane.folder
    (folder / "addresses").write_text(f"{plane.server} {plane.etcd}")
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    (folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
    cluster = {"server": plane.server, "insecure-skip-tls-verify": True}
    context = {"cluster": "real", "user": "admin", "namespace": "default"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "real", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "real", "context": context}],
        "current-context": "real",
    }
    plane.kubeconfig.write_text(yaml.safe_dump(config))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    (folder / "sa.key").write_bytes(private)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / "sa.pub").write_bytes(public)
