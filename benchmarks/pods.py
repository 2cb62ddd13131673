"""Generated Ray worker pods of about 8 kB each, `managedFields` included, as servers send them."""

from __future__ import annotations

import json
from typing import Any


def pod(number: int, *, cluster: str = "demo", namespace: str = "default") -> dict[str, Any]:
    """One running worker pod; `number` makes it differ from others."""
    name = f"{cluster}-gpu-group-worker-{number:06x}"
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": _metadata(name, number, cluster, namespace),
        "spec": _spec(name, number, cluster, namespace),
        "status": _status(number),
    }


def watch_line(number: int) -> bytes:
    """An ADDED event with that pod."""
    return json.dumps({"type": "ADDED", "object": pod(number)}, separators=(",", ":")).encode()


def list_body(count: int) -> bytes:
    """A list of that many pods."""
    items = [pod(number) for number in range(count)]
    metadata = {"resourceVersion": str(10_000_000 + count)}
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
    return json.dumps(body, separators=(",", ":")).encode()


def _uid(prefix: int, number: int) -> str:
    return f"{prefix:08x}-4b1d-4c8e-9f00-{number:012x}"


def _metadata(name: str, number: int, cluster: str, namespace: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": namespace,
        "uid": _uid(7, number),
        "resourceVersion": str(10_000_000 + number),
        "creationTimestamp": "2026-01-10T09:08:07Z",
        "labels": {
            "app.kubernetes.io/created-by": "kuberay-operator",
            "app.kubernetes.io/name": "kuberay",
            "ray.io/cluster": cluster,
            "ray.io/group": "gpu-group",
            "ray.io/identifier": f"{cluster}-worker",
            "ray.io/is-ray-node": "yes",
            "ray.io/node-type": "worker",
        },
        "annotations": {"ray.io/ft-enabled": "false", "kubernetes.io/limit-ranger": "set"},
        "ownerReferences": [
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "name": cluster,
                "uid": _uid(9, 1),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [_managed("kuberay-operator", "f:spec"), _managed("kubelet", "f:status")],
    }


def _managed(manager: str, subtree: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        f'k:{{"name":"field-{n}"}}': {".": {}, "f:name": {}, "f:value": {}} for n in range(34)
    }
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-10T09:08:09Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}, subtree: fields},
    }


def _spec(name: str, number: int, cluster: str, namespace: str) -> dict[str, Any]:
    environment = {
        "FQ_RAY_IP": f"{cluster}-head-svc.{namespace}.svc.cluster.local",
        "RAY_IP": f"{cluster}-head-svc",
        "RAY_PORT": "6379",
        "RAY_ADDRESS": f"{cluster}-head-svc.{namespace}.svc.cluster.local:6379",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
        "REDIS_PASSWORD": "",
        "KUBERAY_GEN_RAY_START_CMD": "ray start --address=demo:6379 --num-gpus=1 --block",
    }
    resources = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    probe = {
        "exec": {"command": ["bash", "-c", "wget -q -O- localhost:52365/api/local_raylet_healthz"]},
        "initialDelaySeconds": 30,
        "timeoutSeconds": 2,
        "periodSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": 120,
    }
    references = [
        {"name": key, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
        for key, path in (("POD_IP", "status.podIP"), ("RAY_CLOUD_INSTANCE_ID", "metadata.name"))
    ]
    token = f"kube-api-access-{number:05x}"
    return {
        "volumes": [
            {"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
            {
                "name": token,
                "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]},
            },
        ],
        "containers": [
            {
                "name": "ray-worker",
                "image": "rayproject/ray:2.52.0-gpu",
                "command": ["/bin/bash", "-lc", "--"],
                "args": ["ulimit -n 65536; " + environment["KUBERAY_GEN_RAY_START_CMD"]],
                "ports": [{"name": "metrics", "containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": k, "value": v} for k, v in environment.items()] + references,
                "resources": {"limits": resources, "requests": resources},
                "volumeMounts": [{"name": "shared-mem", "mountPath": "/dev/shm"}],
                "livenessProbe": probe,
                "readinessProbe": probe,
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "serviceAccountName": "default",
        "nodeName": f"gpu-node-{number % 500:04}",
        "hostname": name,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }


def _status(number: int) -> dict[str, Any]:
    since = f"2026-01-10T{number // 36000 % 24:02}:{number // 600 % 60:02}:{number // 10 % 60:02}Z"
    address = f"10.{number // 65536 % 256}.{number // 256 % 256}.{number % 256}"
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "hostIP": f"192.168.{number % 500 // 250}.{number % 250}",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": since,
        "containerStatuses": [
            {
                "name": "ray-worker",
                "state": {"running": {"startedAt": since}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": "docker.io/rayproject/ray:2.52.0-gpu",
                "imageID": "docker.io/rayproject/ray@sha256:" + "5e" * 32,
                "containerID": f"containerd://{number:064x}",
                "started": True,
            }
        ],
        "qosClass": "Guaranteed",
    }
