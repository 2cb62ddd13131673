"""Feature gates under KubeRay's and Kaito's names, and those of features that only Manta has.

A feature that Manta implements completely is enabled by default, even if it is alpha in KubeRay. A
gate whose value has no effect is accepted, so that KubeRay's settings can be kept, and is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct, field

CRON_JOB: Final = "RayCronJob"
CLUSTER_FLEET: Final = "RayClusterFleet"
EMBEDDED_STORAGE: Final = "GCSFaultToleranceEmbeddedStorage"
HISTORY_SERVER: Final = "RayClusterHistoryServer"
INCREMENTAL_UPGRADE: Final = "RayServiceIncrementalUpgrade"
JOB_DELETION_POLICY: Final = "RayJobDeletionPolicy"
MTLS: Final = "RayClusterMTLS"
MULTI_HOST_INDEXING: Final = "RayMultiHostIndexing"
NETWORK_POLICY: Final = "RayClusterNetworkPolicy"
EXISTING_NODES: Final = "disableNodeAutoProvisioning"
IMAGE_UPGRADE: Final = "enableBaseImageAutoUpgrade"
INFERENCE_SETS: Final = "enableInferenceSetController"
INFERENCE_POOLS: Final = "gatewayAPIInferenceExtension"
PARTITION_ACCELERATORS: Final = "enableAccelerator"
PARTITION_MIG: Final = "enableMIG"
SIDECAR_SUBMITTER_RESTART: Final = "SidecarSubmitterRestart"
VLLM: Final = "vLLM"
WORKLOAD_SCHEDULING: Final = "KubernetesWAS"
WORKSPACE: Final = "Workspace"


class Gate(Struct, frozen=True):
    """The properties of one gate.

    Attributes:
        stage: KubeRay's stage, or Manta's own, to which `AllAlpha` and `AllBeta` refer.
        default: the value if the gate is not set.
        fixed: whether the feature is on whatever the value; None if the value decides.
        is_alone: whether `AllAlpha` and `AllBeta` do not set it: because its feature needs
            permissions that the operator does not have by default, or it is a choice.
    """

    stage: Literal["Alpha", "Beta"]
    default: bool
    fixed: bool | None = None
    is_alone: bool = False


GATES: Final[Mapping[str, Gate]] = MappingProxyType(
    {
        EMBEDDED_STORAGE: Gate("Alpha", default=True),
        WORKLOAD_SCHEDULING: Gate("Alpha", default=False, is_alone=True),
        CLUSTER_FLEET: Gate("Alpha", default=False),
        HISTORY_SERVER: Gate("Alpha", default=True),
        MTLS: Gate("Alpha", default=False, is_alone=True),
        NETWORK_POLICY: Gate("Alpha", default=True),
        "RayClusterStatusConditions": Gate("Beta", default=True, fixed=True),
        CRON_JOB: Gate("Alpha", default=True),
        JOB_DELETION_POLICY: Gate("Beta", default=True),
        MULTI_HOST_INDEXING: Gate("Beta", default=True),
        INCREMENTAL_UPGRADE: Gate("Beta", default=True),
        SIDECAR_SUBMITTER_RESTART: Gate("Alpha", default=False),
        WORKSPACE: Gate("Alpha", default=False, is_alone=True),
        "ModelMirror": Gate("Alpha", default=False, fixed=False, is_alone=True),
        "ModelStreaming": Gate("Alpha", default=False, fixed=False, is_alone=True),
        EXISTING_NODES: Gate("Alpha", default=False, is_alone=True),
        PARTITION_ACCELERATORS: Gate("Alpha", default=False),
        IMAGE_UPGRADE: Gate("Alpha", default=True),
        INFERENCE_SETS: Gate("Beta", default=True, is_alone=True),
        PARTITION_MIG: Gate("Alpha", default=False),
        "enableMultiRoleInferenceController": Gate(
            "Alpha", default=False, fixed=False, is_alone=True
        ),
        INFERENCE_POOLS: Gate("Alpha", default=False, is_alone=True),
        VLLM: Gate("Beta", default=True, is_alone=True),
    }
)
_STAGES: Final = {"AllAlpha": "Alpha", "AllBeta": "Beta"}
_TRUE: Final = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "False", "FALSE"})


class FeatureGates(Struct, frozen=True):
    """The enabled features.

    Attributes:
        chosen: values set by an administrator, by gate; other gates have their defaults.
    """

    chosen: Mapping[str, bool] = field(default_factory=dict[str, bool])

    @classmethod
    def parse(cls, text: str) -> FeatureGates:
        """Parse `A=true,B=false`; `AllAlpha` and `AllBeta` set the gates that are not named.

        Raises:
            ValueError: a gate does not exist, or a value is neither true nor false.
        """
        chosen = dict(_assignment(part) for part in text.split(",") if part.strip())
        for stage_gate, stage in _STAGES.items():
            if stage_gate in chosen:
                value = chosen.pop(stage_gate)
                chosen = dict.fromkeys(_gates_of(stage), value) | chosen
        return cls(chosen)

    def enabled(self, name: str) -> bool:
        """Return whether the feature is enabled.

        Raises:
            KeyError: there is no such gate.
        """
        return self.chosen.get(name, GATES[name].default)

    def without_effect(self) -> Mapping[str, str]:
        """Return the set values that change nothing, by gate, each with the reason."""
        return {
            name: "the feature is always on" if fixed else "Manta does not have the feature"
            for name, value in sorted(self.chosen.items())
            if (fixed := GATES[name].fixed) not in {None, value}
        }


def _gates_of(stage: str) -> Iterator[str]:
    return (name for name, gate in GATES.items() if gate.stage == stage and not gate.is_alone)


def _assignment(text: str) -> tuple[str, bool]:
    name, _, value = (part.strip() for part in text.partition("="))
    if name not in GATES and name not in _STAGES:
        known = ", ".join([*_STAGES, *GATES])
        raise ValueError(f"there is no feature gate {name!r}; there are {known}")
    if value not in _TRUE | _FALSE:
        raise ValueError(f"feature gate {name} is {value!r}; it must be true or false")
    return name, value in _TRUE
