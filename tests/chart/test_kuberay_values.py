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
from tests.chart.helm import (
    CHART,
    KUBERAY_CHART,
    needs_helm,
    needs_kuberay_charts,
    only,
    rendered,
)

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
    assert kind_settings_of(ours).cluster == kind_settings_of(wanted).cluster
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
