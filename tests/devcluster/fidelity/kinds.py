"""The kinds that requests are generated for: valid objects, small changes and small mistakes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from random import Random
from typing import Any

Json = dict[str, Any]

GPU = "example.com/gpu"


@dataclass(frozen=True)
class Kind:
    """One kind.

    Attributes:
        group_version: `v1` or `batch/v1`.
        valid: bodies without metadata, any of which can be created.
        changes: merge patches that are allowed, or refused for a reason of the kind.
        mistakes: merge patches that make a valid body wrong.
        status: merge patches of the status.
        fields: field selectors that are worth trying.
        json_patches: lists of operations.
    """

    group_version: str
    kind: str
    plural: str
    valid: tuple[Json, ...]
    changes: tuple[Json, ...]
    mistakes: tuple[Json, ...]
    status: tuple[Any, ...] = ()
    fields: tuple[str, ...] = ()
    json_patches: tuple[Any, ...] = ()

    @property
    def collection(self) -> str:
        root = "/api" if "/" not in self.group_version else "/apis"
        return f"{root}/{self.group_version}/namespaces/<ns>/{self.plural}"

    @property
    def everywhere(self) -> str:
        return self.collection.replace("/namespaces/<ns>", "")

    def body(self, rng: Random, name: str) -> Json:
        body = copy.deepcopy(rng.choice(self.valid))
        metadata: Json = {"name": name}
        if rng.random() < 0.6 or self.kind == "Job":
            metadata["labels"] = {"app": rng.choice("xy"), "tier": rng.choice(["1", "2"])}
        return {"apiVersion": self.group_version, "kind": self.kind, "metadata": metadata} | body


def containers(*names: str, **extra: Any) -> list[Json]:
    return [{"name": name, "image": "busybox:1"} | extra for name in names]


CONFIG_MAPS = Kind(
    "v1",
    "ConfigMap",
    "configmaps",
    valid=(
        {},
        {"data": {"a": "1"}},
        {"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AAAA"}},
        {"immutable": True, "data": {"a": "1"}},
        {"data": {}},
    ),
    changes=(
        {"data": {"a": "2"}},
        {"data": {"a": None}},
        {"data": {"z": "9", "b": None}},
        {"data": None},
        {"immutable": True},
        {"immutable": False},
        {"binaryData": {"c": "BBBB"}},
    ),
    mistakes=(
        {"data": {"a b": "1"}},
        {"data": {"a": 1}},
        {"data": ["a"]},
        {"data": "a"},
        {"data": {"..": "1"}},
        {"binaryData": {"c": "A"}},
        {"binaryData": {"a": "AAAA"}, "data": {"a": "1"}},
        {"immutable": "yes"},
        {"unknown": 1},
        {"data": {"": "1"}},
    ),
    json_patches=(
        [{"op": "add", "path": "/data/k", "value": "v"}],
        [{"op": "remove", "path": "/data/a"}],
        [{"op": "replace", "path": "/data/a", "value": "3"}],
        [{"op": "test", "path": "/data/a", "value": "1"}],
        [{"op": "copy", "from": "/data/a", "path": "/data/d"}],
        [{"op": "move", "from": "/data/a", "path": "/data/d"}],
        [{"op": "replace", "path": "/data", "value": {"only": "this"}}],
    ),
)

PODS = Kind(
    "v1",
    "Pod",
    "pods",
    valid=(
        {"spec": {"containers": containers("main")}},
        {"spec": {"containers": containers("main", "side"), "restartPolicy": "Never"}},
        {
            "spec": {
                "containers": containers(
                    "main",
                    resources={"limits": {"cpu": "1", "memory": "1Gi"}},
                    env=[{"name": "A", "value": "1"}, {"name": "B"}],
                    ports=[{"containerPort": 80, "name": "http"}],
                ),
                "initContainers": containers("init"),
                "volumes": [{"name": "tmp"}],
            }
        },
        {"spec": {"containers": containers("main", resources={"requests": {"memory": "1Gi"}})}},
        {
            "spec": {
                "containers": containers(
                    "main",
                    readinessProbe={"tcpSocket": {"port": 80}},
                    volumeMounts=[{"name": "v", "mountPath": "/v"}],
                ),
                "volumes": [{"name": "v", "configMap": {"name": "c"}}],
                "nodeSelector": {"a": "b"},
                "terminationGracePeriodSeconds": 5,
            }
        },
    ),
    changes=(
        {"spec": {"activeDeadlineSeconds": 60}},
        {"spec": {"nodeSelector": {"z": "1"}}},
        {"spec": {"restartPolicy": "OnFailure"}},
        {"spec": {"tolerations": [{"key": "n", "operator": "Exists", "effect": "NoSchedule"}]}},
        {"spec": {"terminationGracePeriodSeconds": 1}},
        {"spec": {"hostname": "h"}},
        {"spec": {"containers": containers("main", image="busybox:2")}},
        {"spec": {"priority": 7}},
    ),
    mistakes=(
        {"spec": None},
        {"spec": {"containers": []}},
        {"spec": {"containers": None}},
        {"spec": {"containers": containers("main", "main")}},
        {"spec": {"containers": containers("Main")}},
        {"spec": {"containers": [{"name": "main"}]}},
        {"spec": {"containers": [{"image": "a"}]}},
        {"spec": {"containers": containers("main", image="")}},
        {"spec": {"containers": containers("main", imagePullPolicy="Sometimes")}},
        {"spec": {"containers": containers("main", ports=[{"containerPort": 70000}])}},
        {"spec": {"containers": containers("main", ports=[{"name": "x"}])}},
        {"spec": {"containers": containers("main", ports=[{"containerPort": "80"}])}},
        {"spec": {"containers": containers("main", env=[{"value": "x"}])}},
        {"spec": {"containers": containers("main", env=[{"name": "a=b"}])}},
        {"spec": {"containers": containers("main", resources={"limits": {"cpu": "abc"}})}},
        {"spec": {"containers": containers("main", resources={"limits": {"cpu": "-1"}})}},
        {
            "spec": {
                "containers": containers(
                    "main", resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
                )
            }
        },
        *(
            {"spec": {"containers": containers("main", resources=resources)}}
            for resources in (
                {"requests": {GPU: "1"}},
                {"requests": {GPU: "1"}, "limits": {GPU: "2"}},
                {"limits": {GPU: "500m"}},
                {"limits": {"gpu": "1"}},
                {"limits": {"requests.example.com/gpu": "1"}},
                {"limits": {"hugepages-2Mi": "2Mi"}},
                {"requests": {"hugepages-2Mi": "2Mi", "cpu": "1"}},
            )
        ),
        {
            "spec": {
                "containers": containers("main", volumeMounts=[{"name": "no", "mountPath": "/n"}])
            }
        },
        {"spec": {"containers": containers("main", command="sh")}},
        {"spec": {"containers": containers("main", unknown=1)}},
        {"spec": {"restartPolicy": "Sometimes"}},
        {"spec": {"restartPolicy": 1}},
        {"spec": {"dnsPolicy": "Mine"}},
        {"spec": {"terminationGracePeriodSeconds": "5"}},
        {"spec": {"terminationGracePeriodSeconds": -1}},
        {"spec": {"activeDeadlineSeconds": 0}},
        {"spec": {"unknown": {"deep": 1}}},
        {"spec": {"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}]}},
        {"spec": {"volumes": [{"emptyDir": {}}]}},
        {"spec": {"nodeSelector": {"a b": "c"}}},
        {"spec": {"tolerations": [{"operator": "Equal"}]}},
        {"spec": {"serviceAccountName": "No_Name"}},
        {"spec": {"hostname": "No_Name"}},
        {"spec": {"priorityClassName": "missing"}},
        {"spec": "text"},
        {"spec": ["list"]},
    ),
    status=(
        {"phase": "Running", "podIP": "10.1.1.1"},
        {"phase": "Failed", "reason": "Evicted", "message": "gone"},
        {"phase": "Succeeded"},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        {"phase": 1},
        {"unknown": 1},
    ),
    fields=(
        "status.phase=Pending",
        "status.phase!=Pending",
        "spec.nodeName=",
        "spec.restartPolicy=Never",
        "spec.image=x",
        "status.podIP=10.1.1.1",
    ),
    json_patches=(
        [{"op": "replace", "path": "/spec/containers/0/image", "value": "busybox:3"}],
        [{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 30}],
        [{"op": "remove", "path": "/spec/containers/0"}],
        [{"op": "add", "path": "/spec/containers/-", "value": {"name": "x", "image": "y"}}],
        [{"op": "replace", "path": "/spec/containers/5/image", "value": "x"}],
    ),
)

SERVICES = Kind(
    "v1",
    "Service",
    "services",
    valid=(
        {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
        {"spec": {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"a": "b"}}},
        {"spec": {"type": "NodePort", "ports": [{"port": 80, "targetPort": "web"}]}},
        {"spec": {"type": "LoadBalancer", "ports": [{"port": 1, "protocol": "UDP"}]}},
        {"spec": {"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]}},
        {"spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"a": "b"}}},
    ),
    changes=(
        {"spec": {"selector": {"a": "c"}}},
        {"spec": {"ports": [{"port": 81}]}},
        {"spec": {"ports": [{"port": 81, "name": "x"}, {"port": 82, "name": "y"}]}},
        {"spec": {"type": "NodePort"}},
        {"spec": {"type": "ClusterIP"}},
        {"spec": {"type": "LoadBalancer"}},
        {"spec": {"publishNotReadyAddresses": True}},
        {"spec": {"clusterIP": "None"}},
        {"spec": {"selector": None}},
    ),
    mistakes=(
        {"spec": None},
        {"spec": {"ports": []}},
        {"spec": {"ports": [{"port": 0}]}},
        {"spec": {"ports": [{"port": 70000}]}},
        {"spec": {"ports": [{"port": "80"}]}},
        {"spec": {"ports": [{"port": 80}, {"port": 81}]}},
        {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}},
        {
            "spec": {
                "type": "ClusterIP",
                "ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}],
            }
        },
        {"spec": {"ports": [{"port": 80, "name": "A_B"}]}},
        {"spec": {"ports": [{"port": 80, "protocol": "ICMP"}]}},
        {"spec": {"ports": [{"port": 80, "targetPort": "a_b"}]}},
        {"spec": {"ports": [{"port": 80, "targetPort": 70000}]}},
        {"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 30001}]}},
        {"spec": {"clusterIP": "abc"}},
        {"spec": {"selector": {"a b": "c"}}},
        {"spec": {"selector": {"a": "b c"}}},
        {"spec": {"sessionAffinity": "Sticky"}},
        {"spec": {"externalTrafficPolicy": "Cluster"}},
        {"spec": {"unknown": 1}},
        {"spec": {"publishNotReadyAddresses": "yes"}},
    ),
    status=({"loadBalancer": {"ingress": [{"hostname": "a.example"}]}}, {"loadBalancer": "x"}),
    fields=("spec.type=ClusterIP", "spec.clusterIP=None", "spec.selector=x"),
    json_patches=(
        [{"op": "replace", "path": "/spec/ports/0/port", "value": 99}],
        [{"op": "remove", "path": "/spec/ports/0"}],
        [{"op": "test", "path": "/spec/type", "value": "ClusterIP"}],
    ),
)

JOBS = Kind(
    "batch/v1",
    "Job",
    "jobs",
    valid=(
        {"spec": {"template": {"spec": {"containers": containers("a"), "restartPolicy": "Never"}}}},
        {
            "spec": {
                "parallelism": 2,
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": 5,
                "template": {
                    "metadata": {"labels": {"j": "1"}},
                    "spec": {"containers": containers("a"), "restartPolicy": "OnFailure"},
                },
            }
        },
        {
            "spec": {
                "completions": 3,
                "suspend": True,
                "activeDeadlineSeconds": 100,
                "template": {"spec": {"containers": containers("a"), "restartPolicy": "Never"}},
            }
        },
        {
            "spec": {
                "completions": 3,
                "completionMode": "Indexed",
                "template": {"spec": {"containers": containers("a"), "restartPolicy": "Never"}},
            }
        },
    ),
    changes=(
        {"spec": {"parallelism": 3}},
        {"spec": {"completions": 5}},
        {"spec": {"suspend": True}},
        {"spec": {"suspend": False}},
        {"spec": {"backoffLimit": 2}},
        {"spec": {"activeDeadlineSeconds": 5}},
        {"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}},
        {"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}},
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        {"spec": {"completionMode": "Indexed"}},
    ),
    mistakes=(
        {"spec": None},
        {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}},
        {"spec": {"template": {"spec": {"restartPolicy": None}}}},
        {"spec": {"template": {"spec": {"containers": []}}}},
        {"spec": {"parallelism": -1}},
        {"spec": {"completions": -1}},
        {"spec": {"backoffLimit": -1}},
        {"spec": {"parallelism": "2"}},
        {"spec": {"activeDeadlineSeconds": -1}},
        {"spec": {"ttlSecondsAfterFinished": -1}},
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        {"spec": {"manualSelector": True}},
        {"spec": {"completionMode": "Random"}},
        {"spec": {"completionMode": "Indexed", "completions": None}},
        {"spec": {"unknown": 1}},
    ),
    status=({"active": 1}, {"succeeded": 1}, {"failed": "x"}, {"unknown": 1}),
    fields=("status.successful=0", "status.succeeded=1"),
    json_patches=(
        [{"op": "replace", "path": "/spec/parallelism", "value": 0}],
        [{"op": "remove", "path": "/spec/backoffLimit"}],
    ),
)
