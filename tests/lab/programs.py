"""The programs of the lab: from which Go module each is built, and where it is found.

`make lab` builds them into Manta's cache directory, into a folder named after the module and the
hash of its files. `KUBEBUILDER_ASSETS`, the folder of controller-runtime's envtest, takes the place
of the module `kubernetes` where it is set.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from controller.command.development.runs import cache_dir

HERE = Path(__file__).parent
ASSETS = "KUBEBUILDER_ASSETS"
KUBERNETES = "k8s.io/kubernetes"
VERSIONED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
"""Packages whose variables say which version of Kubernetes a program is."""


class Module(Struct, frozen=True):
    """A Go module in a folder of the lab.

    Attributes:
        packages: what is built, by the name of the program.
        manifests: folders of the required modules that are kept beside the programs.
    """

    name: str
    packages: Mapping[str, str]
    manifests: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])

    @property
    def source(self) -> Path:
        return HERE / self.name

    @property
    def folder(self) -> Path:
        """Where its programs are kept: another one for each content of its files."""
        digest = hashlib.sha256()
        for path in sorted(self.source.iterdir()):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return cache_dir() / "lab" / f"{self.name}-{digest.hexdigest()[:16]}"

    def missing(self) -> list[str]:
        """The programs that are not built."""
        return [name for name in self.packages if not os.access(self.folder / name, os.X_OK)]

    def link_flags(self) -> str:
        """What the linker is told: no symbols, and the version if Kubernetes is built."""
        flags = ["-s", "-w"]
        text = (self.source / "go.mod").read_text()
        if found := re.search(rf"^\s{KUBERNETES} (v(\d+)\.(\d+)\.\d+)", text, re.MULTILINE):
            values = {"gitVersion": found[1], "gitMajor": found[2], "gitMinor": found[3]}
            for package in VERSIONED:
                flags += [f"-X {package}.{name}={value}" for name, value in values.items()]
        return " ".join(flags)


MODULES = (
    Module(
        "kubernetes",
        {
            "etcd": "go.etcd.io/etcd/server/v3",
            "kube-apiserver": f"{KUBERNETES}/cmd/kube-apiserver",
            "kube-controller-manager": f"{KUBERNETES}/cmd/kube-controller-manager",
            "kube-scheduler": f"{KUBERNETES}/cmd/kube-scheduler",
            "kubectl": f"{KUBERNETES}/cmd/kubectl",
        },
    ),
    Module(
        "certmanager",
        {"cert-manager": "."},
        {"crds": ("github.com/cert-manager/cert-manager", "deploy/crds")},
    ),
    Module(
        "istio",
        {"istiod": "istio.io/istio/pilot/cmd/pilot-discovery"},
        {
            "crds": ("istio.io/istio", "manifests/charts/base/files"),
            "chart": ("istio.io/istio", "manifests/charts/istio-control/istio-discovery"),
            "gateway-api": ("sigs.k8s.io/gateway-api", "config/crd/standard"),
        },
    ),
    Module(
        "kueue",
        {"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
        {
            "crds": ("sigs.k8s.io/kueue", "config/components/crd/bases"),
            "webhook": ("sigs.k8s.io/kueue", "config/components/webhook"),
        },
    ),
)
VITAL = tuple(module for module in MODULES if module.name in {"kubernetes", "certmanager"})
"""What the tests marked `vital` need: CI builds no more."""

BY_PROGRAM = {name: module for module in MODULES for name in module.packages}


def path_of(program: str) -> Path:
    """Where the program is, or would be."""
    module = BY_PROGRAM[program]
    assets = os.environ.get(ASSETS) if module.name == "kubernetes" else None
    return Path(assets).expanduser() / program if assets else module.folder / program


def manifests_of(program: str, name: str) -> list[Path]:
    """The YAML files that came with the program's module, by the name of their folder."""
    return sorted((BY_PROGRAM[program].folder / name).glob("*.yaml"))


def kubectl() -> str | None:
    """The command that tests run as `kubectl`: the user's, or that of the lab if it is built."""
    ours = path_of("kubectl")
    found = os.environ.get("KUBECTL") or shutil.which("kubectl")
    return found or (str(ours) if os.access(ours, os.X_OK) else None)


def why_missing(*programs: str) -> str:
    """Why these programs cannot be started; empty if they can."""
    missing = [name for name in programs if not os.access(path_of(name), os.X_OK)]
    if not missing:
        return ""
    names = ", ".join(missing)
    if os.environ.get(ASSETS) and any(BY_PROGRAM[name].name == "kubernetes" for name in missing):
        return f"{ASSETS} names a folder without {names}"
    if shutil.which("go"):
        return f"{names} not built: run `make lab`"
    return f"{names} not built, and there is no Go to build them: see tests/lab/README.md"
