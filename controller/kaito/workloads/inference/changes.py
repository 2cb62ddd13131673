"""Changes of an existing StatefulSet as a JSON patch, empty if none is due.

A model server restarts only for another revision of its Workspace, or when an upgrade of its image
is requested. Changes by others stay: replicas, resources, images, affinity, probes, update
strategy, labels. For a preset, a new revision replaces what follows from the editable fields
(adapters, configuration); for a template, it replaces the pods' template.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.kaito.api import labels
from controller.kaito.presets import with_optional_flags
from controller.kaito.workloads.inference.probes import BENCHMARK_SCRIPT
from controller.kaito.workloads.pods.volumes import WEIGHTS
from controller.kaito.workloads.revisions.revision import RevisionState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kaito.api.workspace import InferenceSpec
    from controller.kaito.workloads.pods.pod_parts import Body
    from controller.kaito.workloads.revisions.revision import Revision
    from controller.kube.objects import ObjectMeta, ServerContainer, StatefulSet

Operations = tuple[dict[str, Any], ...]
_POD: Final = "/spec/template/spec"


def preset_changes(
    present: StatefulSet, desired: Body, inference: InferenceSpec, revision: Revision
) -> Operations:
    """Return the changes to the server of a preset.

    Args:
        present: the StatefulSet.
        desired: the body that would be created, with weights where the present one has them.
        inference: the specification.
        revision: the present one.
    """
    position = _main_container(present)
    if revision.state_of(present.metadata) is not RevisionState.OUTDATED or position is None:
        return _mark(present, revision)
    command = _command_change(present.spec.template.spec.containers[position], inference, position)
    pod: Body = desired["spec"]["template"]["spec"]
    main: Body = pod["containers"][0]
    container = f"{_POD}/containers/{position}"
    return (
        *_mark(present, revision),
        *command,
        _set(f"{container}/env", main.get("env", [])),
        _set(f"{container}/volumeMounts", main.get("volumeMounts", [])),
        _set(f"{_POD}/initContainers", pod.get("initContainers", [])),
        _set(f"{_POD}/volumes", pod["volumes"]),
    )


def template_changes(present: StatefulSet, desired: Body, revision: Revision) -> Operations:
    """Return the changes to the server of a template."""
    if revision.state_of(present.metadata) is not RevisionState.OUTDATED:
        return _mark(present, revision)
    return (*_mark(present, revision), _set("/spec/template", _template(present, desired)))


def image_upgrade(
    workspace: ObjectMeta, present: StatefulSet, desired: Body, revision: Revision
) -> Operations:
    """Return the changes that give the server of a preset the present image, if requested.

    A label of the Workspace names the version, so that a forgotten label has no effect later.
    """
    main: Body = desired["spec"]["template"]["spec"]["containers"][0]
    version = (workspace.labels or {}).get(labels.UPGRADE_TO, "")
    is_due = server_image(present) != main["image"]
    if not version or not main["image"].endswith(f":{version}") or not is_due:
        return ()
    retention = "persistentVolumeClaimRetentionPolicy"
    return (
        *(_mark(present, revision) or _precondition(present)),
        _set("/spec/template", _template(present, desired)),
        _set("/spec/replicas", desired["spec"]["replicas"]),
        _set(f"/spec/{retention}", desired["spec"][retention]),
    )


def server_image(present: StatefulSet) -> str:
    """Return the image of the server's container; empty if there is none."""
    position = _main_container(present)
    return "" if position is None else present.spec.template.spec.containers[position].image


def is_benchmarked(present: StatefulSet) -> bool:
    """Return whether the server is measured when it starts; Kaito's older ones are not."""
    position = _main_container(present)
    if position is None:
        return False
    probe = present.spec.template.spec.containers[position].startup_probe
    command = probe.exec.command if probe is not None and probe.exec is not None else ()
    return any(BENCHMARK_SCRIPT in word for word in command)


def is_on_local_disk(present: StatefulSet) -> bool:
    """Return whether the weights of its pods are on a disk of the machine."""
    return any(each.metadata.name == WEIGHTS for each in present.spec.volume_claim_templates)


def _template(present: StatefulSet, desired: Body) -> Body:
    """Return the desired template with the StatefulSet's selected labels, which never change."""
    template: Body = desired["spec"]["template"]
    selected = present.spec.selector.match_labels or {}
    metadata: Body = template["metadata"]
    return {**template, "metadata": {**metadata, "labels": {**metadata["labels"], **selected}}}


def _main_container(present: StatefulSet) -> int | None:
    """Return the position of the server's container: the one with its name, else the first."""
    names = [each.name for each in present.spec.template.spec.containers]
    if present.metadata.name in names:
        return names.index(present.metadata.name)
    return 0 if names else None


def _command_change(
    container: ServerContainer, inference: InferenceSpec, position: int
) -> Iterator[dict[str, Any]]:
    for number, word in enumerate(container.command):
        changed = with_optional_flags(
            word, with_adapters=bool(inference.adapters), with_config=bool(inference.config)
        )
        if changed != word:
            yield _set(f"{_POD}/containers/{position}/command/{number}", changed, op="replace")


def _mark(present: StatefulSet, revision: Revision) -> Operations:
    """Return the annotations of a revision, if they differ."""
    found = present.metadata.annotations
    wanted = revision.annotations
    if found is not None and found.get(labels.REVISION) == wanted[labels.REVISION]:
        return ()
    new = (
        [_set("/metadata/annotations", wanted)]
        if found is None
        else [_set(f"/metadata/annotations/{_escaped(key)}", wanted[key]) for key in wanted]
    )
    return (*_precondition(present), *new)


def _precondition(present: StatefulSet) -> Operations:
    revision = present.metadata.resource_version
    return ({"op": "test", "path": "/metadata/resourceVersion", "value": revision},)


def _set(path: str, value: Any, op: str = "add") -> dict[str, Any]:
    return {"op": op, "path": path, "value": value}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
