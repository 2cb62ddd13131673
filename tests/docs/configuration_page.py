"""The tables of docs/configuration.md: flags, the configuration file, variables and feature gates.

After a change, run `.venv/bin/python -m tests.docs.configuration_page`.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from controller.command.cli import parser
from controller.command.manager import _FLAGS, Configuration
from controller.ray.api.feature_gates import GATES
from tests.docs.tree import ROOT
from tests.docs.upgrade_pictures import with_blocks

PAGE: Final = ROOT / "docs" / "configuration.md"

_IN_THE_FILE_ONLY: Final = {
    "headSidecarContainers": "containers that every head gets besides its own",
    "workerSidecarContainers": "containers that every worker gets besides its own",
    "defaultContainerEnvs": "variables of every Ray container that does not have them",
    "defaultPodAnnotations": "annotations of every Ray pod that does not have them",
    "defaultPodLabels": "labels of every Ray pod that does not have them",
}
_FEATURES: Final = {
    "GCSFaultToleranceEmbeddedStorage": "a GCS that survives its head by a claim, without Redis",
    "RayClusterFleet": "copies of a cluster ([fleet.md](fleet.md))",
    "RayCronJob": "jobs by the clock ([raycronjob.md](raycronjob.md))",
    "RayClusterHistoryServer": "`historyServerOptions` of RayClusters ([history.md](history.md))",
    "RayClusterMTLS": "`tlsOptions` of RayClusters ([mtls.md](mtls.md))",
    "RayClusterNetworkPolicy": "`networkPolicy` of RayClusters "
    "([security.md](security.md#network-policies-of-ray-clusters))",
    "RayJobDeletionPolicy": "`deletionStrategy` of RayJobs",
    "RayMultiHostIndexing": "labels with the index of a replica and of a host",
    "RayServiceIncrementalUpgrade": "upgrades with the Gateway API ([upgrades.md](upgrades.md))",
    "KubernetesWAS": (
        "Kubernetes' own scheduler starts clusters whole "
        "([batch-schedulers.md](batch-schedulers.md))"
    ),
    "SidecarSubmitterRestart": "a submitter in `SidecarMode` that fails is started again; needs "
    "Kubernetes 1.35, below which the operator does not start",
    "enableAccelerator": "Workspaces on some of a node's GPUs ([workspace.md](workspace.md))",
    "enableBaseImageAutoUpgrade": "`autoUpgrade` of InferenceSets "
    "([workspace.md](workspace.md#newer-images))",
    "disableNodeAutoProvisioning": "Workspaces on existing nodes, as `NODE_PROVISIONER=byo`",
    "enableInferenceSetController": "InferenceSets, where Workspaces are on",
    "gatewayAPIInferenceExtension": "InferencePools for models that vLLM serves "
    "([workspace.md](workspace.md#routers-of-the-gateway-api))",
    "vLLM": "models are served with vLLM; off: all with transformers",
    "enableMIG": "Workspaces on slices of GPUs ([workspace.md](workspace.md))",
    "Workspace": "models on GPU nodes of their own ([workspace.md](workspace.md))",
}
_ALWAYS: Final = {
    None: "",
    True: "always on",
    False: "always off ([compatibility-kaito.md](compatibility-kaito.md))",
}
_READERS: Final = ("controller/ray", "controller/kaito", "controller/kube", "controller/command")
_OF_DEVELOPMENT: Final = "controller/command/development"
_VARIABLE: Final = re.compile(r"[A-Z][A-Z_]+")


def _manager() -> Iterator[tuple[str, ...]]:
    yield "In the file", "Flag", "Default", "Meaning"
    flags = {
        flag.field or name.replace("-", "_"): (f"`-{name}`", flag.help)
        for name, flag in _FLAGS.items()
    }
    for field in msgspec.structs.fields(Configuration):
        flag, meaning = flags.get(field.name) or ("", _IN_THE_FILE_ONLY[field.encode_name])
        default = field.default
        if default is msgspec.NODEFAULT:
            default = field.default_factory()  # type: ignore[operator]
        yield f"`{field.encode_name}`", flag, _shown(default), meaning


def _run() -> Iterator[tuple[str, ...]]:
    yield "Flag", "Default", "Meaning"
    for action in _arguments("run"):
        names = ", ".join(f"`{name}`" for name in action.option_strings)
        yield names, _shown(action.default), _meaning(action)


def _arguments(command: str) -> list[argparse.Action]:
    (commands,) = (
        each for each in parser()._actions if isinstance(each, argparse._SubParsersAction)
    )
    found = commands.choices[command]._actions
    return [each for each in found if each.option_strings != ["-h", "--help"]]


def _meaning(action: argparse.Action) -> str:
    choices = ", ".join(action.choices) if action.choices else ""
    words = (action.help or "").partition(", with their defaults")[0]  # of gates: another table
    return ": ".join(filter(None, [words, choices]))


def _gates() -> Iterator[tuple[str, ...]]:
    yield "Gate", "Stage", "Default", "Meaning"
    for name, gate in GATES.items():
        meaning = _ALWAYS[gate.fixed] or _FEATURES[name]
        yield f"`{name}`", gate.stage.lower(), "on" if gate.default else "off", meaning


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default}`" if default or default == 0 else ""


SECTIONS: Final[Mapping[str, Callable[[], Iterator[tuple[str, ...]]]]] = {
    "manager": _manager,
    "run": _run,
    "gates": _gates,
}


def table(section: str) -> str:
    """The table of a block of the page."""
    head, *rows = (f"| {' | '.join(row)} |" for row in SECTIONS[section]())
    return "\n".join([head, "|---" * (head.count(" | ") + 1) + "|", *rows])


def variables_read() -> set[str]:
    """The variables of the environment that the operator reads by name."""
    return {
        word.value
        for folder in _READERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        if not file.is_relative_to(ROOT / _OF_DEVELOPMENT)
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and _asks_the_environment(call)
        for word in call.args[:1]
        if isinstance(word, ast.Constant) and _VARIABLE.fullmatch(str(word.value))
    }


def _asks_the_environment(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(
            attr="get", value=ast.Name(id="environment") | ast.Attribute(attr="environ")
        ):
            return True
        case ast.Name(id="is_set_to" | "is_true" | "one_of"):
            return True
        case _:
            return False


if __name__ == "__main__":
    PAGE.write_text(with_blocks(PAGE.read_text(), {name: table(name) for name in SECTIONS}))
