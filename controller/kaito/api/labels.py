"""Labels, annotations and finalizers of Kaito, and our own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from controller.kube.objects import KubeObject

WORKSPACE_FINALIZER: Final = "workspace.finalizer.kaito.sh"
INFERENCE_SET_FINALIZER: Final = "inferenceset.finalizer.kaito.sh"

# Revisions; note the other domain.
HASH: Final = "workspace.kaito.io/hash"
REVISION: Final = "workspace.kaito.io/revision"
REVISION_OF: Final = "workspace.kaito.io/name"

# What belongs to a Workspace.
WORKSPACE: Final = "kaito.sh/workspace"
WORKSPACE_NAMESPACE: Final = "kaito.sh/workspacenamespace"
RAG_ENGINE: Final = "kaito.sh/ragengine"
RAG_ENGINE_NAMESPACE: Final = "kaito.sh/ragenginenamespace"
CREATED_BY_INFERENCE_SET: Final = "inferenceset.kaito.sh/created-by"
CREATED_BY_MULTI_ROLE: Final = "multiroleinference.kaito.sh/created-by"
INFERENCE_ROLE: Final = "kaito.sh/inference-role"
UPGRADE_TO: Final = "kaito.sh/upgrade-to-version"
UPGRADE_STARTED: Final = "kaito.sh/upgrade-start-time"

POD_INDEX: Final = "apps.kubernetes.io/pod-index"

# Karpenter, and its NodePools of Kaito.
NODE_POOL: Final = "karpenter.sh/nodepool"
KAITO_NODE_POOL: Final = "kaito"
"""The pool that claims name: it does not exist, so that Karpenter leaves them alone."""

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
POOL_WORKSPACE: Final = "karpenter.kaito.sh/workspace-name"
POOL_WORKSPACE_NAMESPACE: Final = "karpenter.kaito.sh/workspace-namespace"
POOL_INFERENCE_SET: Final = "karpenter.kaito.sh/inferenceset"
POOL_INFERENCE_SET_NAMESPACE: Final = "karpenter.kaito.sh/inferenceset-namespace"
POOL_MANAGED_BY: Final = "karpenter.kaito.sh/managed-by"
POOL_MANAGER: Final = "kaito"
DEFAULT_NODE_CLASS: Final = "karpenter.kaito.sh/default"

# Nodes.
ACCELERATOR: Final = "accelerator"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
OPERATING_SYSTEM: Final = "kubernetes.io/os"
AZURE_SKU: Final = "karpenter.azure.com/sku-name"
AZURE_PLACEMENT_SCOPE: Final = "karpenter.azure.com/placement-scope"
AWS_GPU_COUNT: Final = "karpenter.k8s.aws/instance-gpu-count"

# Annotations of a Workspace that its user sets.
RUNTIME: Final = "kaito.sh/runtime"
ENABLE_LOAD_BALANCER: Final = "kaito.sh/enablelb"
DISABLE_BENCHMARK: Final = "kaito.sh/disable-benchmark"
PERFORMANCE_MODE: Final = "kaito.sh/performance-mode"
USE_LOCAL_WEIGHTS: Final = "kaito.sh/use-local-weights"
BYPASS_RESOURCE_CHECKS: Final = "kaito.sh/bypass-resource-checks"
NODE_IMAGE_FAMILY: Final = "kaito.sh/node-image-family"
NODE_CLASS_NAME: Final = "kaito.sh/node-class-name"

# Of streamed weights, which are not built.
MODEL_STREAMING: Final = "kaito.sh/model-streaming"
_STREAMING: Final = (
    MODEL_STREAMING,
    "kaito.sh/model-mirror-storage-class",
    "kaito.sh/streaming-service-account",
    "inference.kaito.sh/stream-",
    "inference.kaito.sh/static-model-mirror",
)

# Ours.
NODE_CLAIMS: Final = "manta.dev/node-claims"
"""Annotation of a Workspace: the committed set of its claims."""

NODE_POOL_COMMITMENT: Final = "manta.dev/node-pool"
"""Annotation of a Workspace: the committed size of its NodePool."""

NODE_TEMPLATE: Final = "manta.dev/node-template"
"""Annotation of a NodePool: the machine and the labels for which it was created."""

MODEL: Final = "manta.dev/model"
"""Annotation of a Workspace: the facts about a model that is not in the catalogue."""

_RESERVED: Final = frozenset(
    {
        WORKSPACE,
        WORKSPACE_NAMESPACE,
        RAG_ENGINE,
        RAG_ENGINE_NAMESPACE,
        POOL_WORKSPACE,
        POOL_WORKSPACE_NAMESPACE,
        POOL_INFERENCE_SET,
        POOL_INFERENCE_SET_NAMESPACE,
    }
)


def without_reserved(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a selector that users may request; Kaito drops the others silently."""
    return {key: value for key, value in labels.items() if key not in _RESERVED}


def streaming_annotations(given: Mapping[str, str]) -> list[str]:
    """Return the paths of the annotations that ask for weights from a ModelMirror."""
    if given.get(MODEL_STREAMING) == "disabled":
        return []
    return [f"metadata.annotations[{key}]" for key in sorted(given) if key.startswith(_STREAMING)]


# Names of objects and adapters, with the messages of Kubernetes.

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_LABEL_SYNTAX: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_SYNTAX: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def label_problem(name: str) -> str:
    """Return why a name is not a DNS label; empty if it is one."""
    return _problem(name, 63, _LABEL, _LABEL_SYNTAX)


def subdomain_problem(name: str) -> str:
    """Return why a name is not a DNS subdomain; empty if it is one."""
    return _problem(name, 253, _SUBDOMAIN, _SUBDOMAIN_SYNTAX)


def derived_problem(name: str, derived: str) -> str:
    """Return why a part of a pod cannot have the name that follows from a user's."""
    problem = label_problem(derived)
    return (
        f"{name} leads to a part of the pod with the name {derived}: {problem}" if problem else ""
    )


def _problem(name: str, limit: int, form: re.Pattern[str], syntax: str) -> str:
    problems: list[str] = []
    if len(name) > limit:
        problems.append(f"must be no more than {limit} characters")
    if not form.fullmatch(name):
        problems.append(syntax)
    return ", ".join(problems)


def name_in(obj: KubeObject, name_label: str, namespace_label: str) -> tuple[str, ...]:
    """Return the key of the object that labels name; empty if they name none."""
    own = obj.metadata.labels or {}
    name, namespace = own.get(name_label), own.get(namespace_label)
    return (f"{namespace}/{name}",) if name and namespace else ()
