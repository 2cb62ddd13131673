"""Workspaces as golden files give them, and the bodies that are made from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from controller.apimachinery.validation import Problem
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.revisions import Revision, revision_hash
from controller.kaito.api.validation import validate_workspace
from controller.kaito.api.workspace import Workspace, WorkspaceSpec
from controller.kaito.presets.gpus import Cloud
from controller.kaito.presets.models import find_model
from controller.kaito.presets.runtimes import find_tunable_model
from controller.kaito.workloads.pods import script
from controller.kaito.workloads.preset import preset_stateful_set, services
from controller.kaito.workloads.server import Serving, template_stateful_set, workload_gpus
from controller.kaito.workloads.tuning import Tuning, results_folder, tuning_job
from tests.docs.tree import ROOT
from tests.kaito.support import workspace

GOLDEN = ROOT / "tests" / "kaito" / "golden"
Body = dict[str, Any]


@dataclass(frozen=True)
class Given:
    """What a workload is made from."""

    name: str
    resource: dict[str, Any]
    inference: dict[str, Any] | None = None
    tuning: dict[str, Any] | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    annotations: dict[str, str] = field(default_factory=dict[str, str])
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    nodes: int = 1
    on_local_disk: bool = False
    node: dict[str, str] | None = None
    config: str = ""

    @property
    def workspace(self) -> Workspace:
        """The object."""
        purpose = {"inference": self.inference} if self.inference else {"tuning": self.tuning}
        own = {"labels": self.labels, "annotations": self.annotations}
        resource = {"instanceType": None, "count": None} | self.resource
        return workspace(resource=resource, **purpose, **{key: own[key] for key in own if own[key]})

    @property
    def operator(self) -> KaitoOptions:
        """The options of the operator."""
        changes: dict[str, Any] = dict(self.options)
        if "cloud" in changes:
            changes["cloud"] = Cloud(changes["cloud"])
        if "provisioner" in changes:
            changes["provisioner"] = Provisioner(changes["provisioner"])
        return KaitoOptions(preset_registry="example.com/kaito", **changes)

    @property
    def spec(self) -> WorkspaceSpec:
        """The valid specification."""
        found = validate_workspace(self.workspace, self.operator)
        assert not isinstance(found, Problem), found
        return found

    @property
    def revision(self) -> Revision:
        """Its revision, of number 7."""
        return Revision(7, revision_hash(self.workspace))

    def bodies(self) -> dict[str, Any]:
        """What is created, by kind; a golden file has it in this form."""
        if self.tuning:
            return {"job": self.job()}
        request, headless = services(self.workspace.metadata, self.operator)
        return {"statefulSet": self.stateful_set(), "service": request, "headless": headless}

    def stateful_set(self) -> Body:
        """The model server."""
        spec, options, meta = self.spec, self.operator, self.workspace.metadata
        assert spec.inference is not None
        if spec.inference.template is not None:
            return template_stateful_set(meta, spec, self.nodes, self.revision, options)
        return preset_stateful_set(meta, spec, self.serving(), options)

    def serving(self) -> Serving:
        """What is known of the model and the nodes."""
        spec = self.spec
        assert spec.inference is not None
        assert spec.inference.preset is not None
        model = find_model(spec.inference.preset.name)
        assert model is not None
        return Serving(model, self._gpus, self.nodes, self.revision, self.on_local_disk)

    def job(self) -> Body:
        """The tuning."""
        spec = self.spec
        assert spec.tuning is not None
        assert spec.tuning.preset is not None
        model = find_tunable_model(spec.tuning.preset.name)
        assert model is not None
        folder = results_folder({"training_config.yaml": self.config})
        tuning = Tuning(model, self._gpus, folder, self.revision)
        return tuning_job(self.workspace.metadata, spec, tuning, self.operator)

    @property
    def _gpus(self) -> Any:
        node = ("n", self.node) if self.node is not None else None
        return workload_gpus(self.spec.resource, self.operator, node)


def read_golden(name: str) -> tuple[Given, dict[str, Any]]:
    """What a golden file gives, and what is expected of it."""
    text = (GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")
    content = yaml.load(text, Loader=yaml.CSafeLoader)
    return given(name, content.pop("given")), content


def given(name: str, content: dict[str, Any]) -> Given:
    """The `given` of a golden file."""
    found = dict(content)
    if "onLocalDisk" in found:
        found["on_local_disk"] = found.pop("onLocalDisk")
    return Given(name, **found)


def golden_names() -> Iterator[str]:
    """Names of the golden files."""
    return (each.stem for each in sorted(GOLDEN.glob("*.yaml")))


def abridged(body: Any) -> Any:
    """The body with names in angle brackets for the texts of scripts."""
    if isinstance(body, dict):
        return {key: abridged(value) for key, value in cast("Body", body).items()}
    if isinstance(body, list):
        return [abridged(value) for value in cast("list[Any]", body)]
    if isinstance(body, str):
        for name in ("pull.sh", "push.sh", "download.sh"):
            _, _, text = script(name).partition("\n")
            body = body.replace(text, f"<{name}>")
    return body
