"""Values files of KubeRay's chart work with ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.command.manager import (
    kind_settings_of,
    read_configuration,
    read_options,
    settings_of,
)
from tests.chart.helm import CHART, KUBERAY_CHART, needs_helm, needs_kuberay_charts, only, rendered

pytestmark = [pytest.mark.slow, needs_helm]

CHANGED: dict[str, Any] = {
    "nameOverride": "ray-op",
    "fullnameOverride": "the-operator",
    "componentOverride": "part",
    "replicas": 2,
    "image": {"repository": "r.example/manta", "tag": "7", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "nodeSelector": {"disk": "ssd"},
    "priorityClassName": "high",
    "labels": {"team": "a"},
    "annotations": {"note": "b"},
    "affinity": {"nodeAffinity": {}},
    "tolerations": [{"operator": "Exists"}],
    "serviceAccount": {"create": False, "name": "mine"},
    "logging": {
        "stdoutEncoder": "console",
        "fileEncoder": "console",
        "baseDir": "/logs",
        "fileName": "o.log",
        "sizeLimit": "1Gi",
    },
    "batchScheduler": {"enabled": False, "name": ""},
    "configuration": {
        "enabled": False,
        "defaultContainerEnvs": [{"name": "A", "value": "b"}],
        "defaultPodAnnotations": {"a": "b"},
        "defaultPodLabels": {"k": "v"},
        "headSidecarContainers": [{"name": "h", "image": "i"}],
        "workerSidecarContainers": [{"name": "w", "image": "i"}],
    },
    "featureGates": [{"name": "RayCronJob", "enabled": True}],
    "metrics": {
        "enabled": False,
        "serviceMonitor": {
            "enabled": True,
            "interval": "5s",
            "honorLabels": False,
            "additionalLabels": {"release": "p"},
            "namespace": "monitoring",
        },
    },
    "operatorCommand": "/other",
    "useKubernetesProxy": True,
    "leaderElectionEnabled": True,
    "reconcileConcurrency": 3,
    "kubeClient": {"qps": 12.5, "burst": 17},
    "rbacEnable": False,
    "crNamespacedRbacEnable": False,
    "singleNamespaceInstall": True,
    "watchNamespace": ["n1", "n2"],
    "env": [{"name": "CLUSTER_DOMAIN", "value": "c.example"}],
    "resources": {"limits": {"cpu": "2", "memory": "3Gi"}},
    "livenessProbe": {"initialDelaySeconds": 1, "periodSeconds": 2, "failureThreshold": 3},
    "readinessProbe": {"initialDelaySeconds": 4, "periodSeconds": 5, "failureThreshold": 6},
    "podSecurityContext": {"fsGroup": 5},
    "securityContext": {"runAsUser": 7},
    "service": {"type": "NodePort", "port": 9},
}


def with_values(folder: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return rendered(CHART, files=[file])


@needs_kuberay_charts
def test_kuberays_values_work_as_they_are():
    objects = rendered(CHART, files=[KUBERAY_CHART / "values.yaml"])
    (container,) = only("Deployment", objects)["spec"]["template"]["spec"]["containers"]
    theirs = rendered(KUBERAY_CHART)
    (their_container,) = only("Deployment", theirs)["spec"]["template"]["spec"]["containers"]
    assert container["command"] == their_container["command"]
    ours, wanted = read_options(container["args"]), read_options(their_container["args"])
    assert settings_of(ours) == settings_of(wanted)
    assert kind_settings_of(ours).ray == kind_settings_of(wanted).ray
    assert only("ServiceAccount", objects)["metadata"]["name"] == "kuberay-operator"


@needs_kuberay_charts
def test_every_value_of_kuberays_is_known_and_changed_here():
    theirs = yaml.safe_load((KUBERAY_CHART / "values.yaml").read_text())
    assert set(theirs) <= set(CHANGED)
    for name, value in theirs.items():
        if isinstance(value, dict) and name not in {"resources", "securityContext"}:
            assert set(value) <= set(CHANGED[name])


def test_every_changed_value_arrives(tmp_path: Path):
    objects = with_values(tmp_path, CHANGED)
    assert {each["kind"] for each in objects} == {"Deployment", "PodDisruptionBudget"}
    deployment = only("Deployment", objects)
    assert deployment["metadata"]["name"] == "the-operator"
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert container["image"] == "r.example/manta:7"
    assert container["command"] == ["/other"]
    assert container["env"] == CHANGED["env"]
    settings = settings_of(options := read_options(container["args"]))
    assert (settings.workers, settings.qps, settings.burst) == (3, 12.5, 17)
    assert settings.namespaces == ("n1", "n2")
    assert (settings.log_format, settings.log_file) == ("console", "/logs/o.log")
    assert settings.metrics_address == ""
    assert options.feature_gates == "RayCronJob=true"
    assert options.configuration.use_kubernetes_proxy
    spec = template["spec"]
    for name in ("imagePullSecrets", "nodeSelector", "priorityClassName", "affinity"):
        assert spec[name] == CHANGED[name]
    assert spec["tolerations"] == CHANGED["tolerations"]
    assert spec["serviceAccountName"] == "mine"
    assert spec["securityContext"]["fsGroup"] == 5
    assert container["securityContext"]["runAsUser"] == 7
    assert container["resources"]["limits"] == CHANGED["resources"]["limits"]
    assert container["livenessProbe"].items() >= CHANGED["livenessProbe"].items()
    assert container["readinessProbe"].items() >= CHANGED["readinessProbe"].items()
    assert template["metadata"]["labels"].items() >= CHANGED["labels"].items()
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == "part"
    assert template["metadata"]["annotations"] == CHANGED["annotations"]
    (volume,) = spec["volumes"]
    assert volume["emptyDir"] == {"sizeLimit": "1Gi"}


def test_the_configuration_file_says_what_the_flags_say(tmp_path: Path):
    by_flags = with_values(tmp_path, CHANGED)
    configuration = CHANGED["configuration"] | {"enabled": True}
    by_file = with_values(tmp_path, CHANGED | {"configuration": configuration})
    (container,) = only("Deployment", by_flags)["spec"]["template"]["spec"]["containers"]
    flags = read_options(container["args"]).configuration
    path = tmp_path / "config.yaml"
    path.write_text(only("ConfigMap", by_file)["data"]["config.yaml"])
    read = read_configuration(path)
    for name in flags.__struct_fields__:
        if name.startswith(("head_", "worker_", "default_")):
            assert getattr(read, name), name
        elif not name.endswith("_encoder"):  # these are flags in both cases
            assert getattr(read, name) == getattr(flags, name), name


# -- kubeRay's ClusterRoles for people, beside those of KubeRay's chart ----------------------------


KINDS = ("rayjob", "rayservice", "raycronjob")
NAMES = {f"{kind}-{role}-role" for kind in KINDS for role in ("editor", "viewer")}
AGGREGATION = "rbac.authorization.k8s.io/aggregate-to-"


def roles(*values: str, **chart: Any) -> dict[str, dict[str, Any]]:
    found = rendered(chart.get("chart", CHART), *values)
    return {
        each["metadata"]["name"]: each
        for each in found
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] in NAMES
    }


def rights(role: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@needs_kuberay_charts
def test_they_are_those_of_kuberays_chart():
    ours, theirs = roles("userRoles.create=true"), roles(chart=KUBERAY_CHART)
    assert ours.keys() == theirs.keys() == NAMES
    for name, role in theirs.items():
        assert rights(ours[name]) == rights(role), name
        assert not any(key.startswith(AGGREGATION) for key in role["metadata"]["labels"])
        assert not any(key.startswith(AGGREGATION) for key in ours[name]["metadata"]["labels"])


def test_an_editor_may_write_and_a_viewer_may_not():
    found = roles("userRoles.create=true")
    for kind in KINDS:
        plural = f"{kind}s"
        reads = {("ray.io", plural, verb) for verb in ("get", "list", "watch")}
        reads.add(("ray.io", f"{plural}/status", "get"))
        writes = {("ray.io", plural, verb) for verb in ("create", "delete", "patch", "update")}
        assert rights(found[f"{kind}-viewer-role"]) == reads
        assert rights(found[f"{kind}-editor-role"]) == reads | writes


def test_aggregated_they_become_part_of_edit_and_view():
    for name, role in roles("userRoles.create=true", "userRoles.aggregate=true").items():
        into = "edit" if "editor" in name else "view"
        marks = {key for key in role["metadata"]["labels"] if key.startswith(AGGREGATION)}
        assert marks == {f"{AGGREGATION}{into}"}


@pytest.mark.parametrize(
    "values",
    [
        ("rbacEnable=true",),
        ("userRoles.create=true", "rbacEnable=false"),
        ("userRoles.create=true", "singleNamespaceInstall=true"),
    ],
)
def test_there_are_none_unless_asked_for_and_permitted(values: tuple[str, ...]):
    assert roles(*values) == {}
