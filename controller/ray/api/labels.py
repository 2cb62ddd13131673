"""Label and annotation keys of the `ray.io` kinds, and the values that Manta writes.

The keys are KubeRay's, because users, Ray's autoscaler and other controllers select by them
(`ray-operator/controllers/ray/utils/constant.go`). Manta's own keys have the prefix `manta.dev/`.
"""

from __future__ import annotations

from typing import Final

CLUSTER: Final = "ray.io/cluster"
NODE_TYPE: Final = "ray.io/node-type"
GROUP: Final = "ray.io/group"
IS_RAY_NODE: Final = "ray.io/is-ray-node"
IDENTIFIER: Final = "ray.io/identifier"
SERVE: Final = "ray.io/serve"
HEADLESS_SERVICE: Final = "ray.io/headless-worker-svc"
REPLICA_INDEX: Final = "ray.io/worker-group-replica-index"
REPLICA_NAME: Final = "ray.io/worker-group-replica-name"
HOST_INDEX: Final = "ray.io/replica-host-index"
ORIGIN_NAME: Final = "ray.io/originated-from-cr-name"
ORIGIN_KIND: Final = "ray.io/originated-from-crd"
SUBMISSION_MODE: Final = "ray.io/job-submission-mode"
CRON_JOB_NAME: Final = "ray.io/cronjob-name"
APP_NAME: Final = "app.kubernetes.io/name"
CREATED_BY: Final = "app.kubernetes.io/created-by"

HEAD: Final = "head"
WORKER: Final = "worker"
REDIS_CLEANUP: Final = "redis-cleanup"
SUBMITTER: Final = "submitter"
"""Node type of the submitter pod of a RayJob; with it, one selector matches all Ray pods."""
HEAD_GROUP: Final = "headgroup"
APP_NAME_VALUE: Final = "kuberay"
CREATED_BY_VALUE: Final = "kuberay-operator"

FT_ENABLED: Final = "ray.io/ft-enabled"
EXTERNAL_STORAGE_NAMESPACE: Final = "ray.io/external-storage-namespace"
DELETION_TIMEOUT: Final = "ray.io/gcs-ft-deletion-timeout"
OVERWRITE_CONTAINER_COMMAND: Final = "ray.io/overwrite-container-cmd"
ENABLE_SERVE_SERVICE: Final = "ray.io/enable-serve-service"
DISABLE_HEAD_RESTART: Final = "ray.io/disable-provisioned-head-restart"
INITIALIZING_TIMEOUT: Final = "ray.io/initializing-timeout"
INGRESS_CLASS: Final = "kubernetes.io/ingress.class"
KUBERAY_VERSION: Final = "ray.io/kuberay-version"
RECREATE_HASH: Final = "ray.io/upgrade-strategy-recreate-hash"
CRON_JOB_TIMESTAMP: Final = "ray.io/cronjob-scheduled-timestamp"
CLUSTER_UID: Final = "manta.dev/cluster-uid"
TEMPLATE_HASH: Final = "manta.dev/pod-template-hash"
OWN_PREFIX: Final = "manta.dev/"
OWNED_FIELDS: Final = "manta.dev/owned-fields"
CONFIRM_DELETION: Final = "manta.dev/confirm-deletion"
"""On a RayCluster: the generation whose held deletions a person has confirmed."""
MADE_FROM: Final = "manta.dev/made-from"
"""On a RayCluster: digest of the `rayClusterSpec` that it was created from."""
SERVE_CONFIG: Final = "manta.dev/serve-config"
"""On a RayCluster: the Serve config that it serves, gzip and base64."""
SERVE_CONFIG_HASH: Final = "manta.dev/serve-config-hash"
DELETE_AFTER: Final = "manta.dev/delete-after"
"""On a RayCluster that was replaced: when it may be deleted, RFC 3339."""
RUNS_ON: Final = "manta.dev/runs-on"
"""On a RayJob: cluster and head incarnation of the present attempt."""

RAYJOB_FINALIZER: Final = "ray.io/rayjob-finalizer"
RAYSERVICE_FINALIZER: Final = "ray.io/rayservice-finalizer"
REDIS_CLEANUP_FINALIZER: Final = "ray.io/gcs-ft-redis-cleanup-finalizer"
MANAGED_BY_US: Final = "ray.io/kuberay-operator"
ORIGIN_KINDS: Final = frozenset({"RayCluster", "RayJob", "RayService"})
"""Values of `ray.io/originated-from-crd`; any other value is read as `RayCluster`."""
