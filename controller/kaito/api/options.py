"""Settings about the cluster, on which validation and plans depend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Final, TypeVar

from msgspec import Struct, field

from controller.kaito.api import labels
from controller.kaito.api.karpenter import NodeClassSettings
from controller.kaito.presets.gpus import Cloud

E = TypeVar("E", bound=Enum)

IMAGE_FAMILIES: Final = ("azurelinux", "ubuntu")
_YES: Final = frozenset({"1", "ON", "YES", "TRUE"})
"""The values of a variable of Hugging Face that switch something on."""

_HTTPS: Final = re.compile(r"https://[\w.-]+(:\d{1,5})?(/[\w./-]*)?", re.ASCII)

PERFORMANCE_MODES: Final = ("balanced", "interactivity", "throughput")


class Provisioner(Enum):
    """The origin of nodes, Kaito's `--node-provisioner`."""

    NODE_CLAIMS = "azure-gpu-provisioner"
    NODE_POOLS = "karpenter"
    OWN_NODES = "byo"


class Runtime(Enum):
    """The software that serves a model, the annotation `kaito.sh/runtime`."""

    VLLM = "vllm"
    TRANSFORMERS = "transformers"


class ClaimSettings(Struct, frozen=True):
    """Durations of waits for NodeClaims.

    Attributes:
        first_retry: wait after the first failure of a claim; doubled by each further one.
        longest_retry: maximum wait. A claim that was ready for this long resets the failures.
        hold: time for which ready nodes of an incomplete set of several are held.
    """

    first_retry: timedelta = timedelta(seconds=30)
    longest_retry: timedelta = timedelta(minutes=10)
    hold: timedelta = timedelta(minutes=30)

    def retry_after(self, failures: int) -> timedelta:
        """Return the wait before a claim is created again after so many consecutive failures."""
        if failures < 1:
            return timedelta()
        return min(self.first_retry * 2 ** min(failures - 1, 20), self.longest_retry)


class KaitoOptions(Struct, frozen=True):
    """Settings of the operator for both kinds.

    Attributes:
        batch: maximum Workspaces of an InferenceSet that one plan creates, deletes or changes.
        mig: whether slices of GPUs may be asked for.
        accelerators: whether some of a node's GPUs may be asked for.
        auto_upgrade: whether InferenceSets may ask for the image of a newer operator.
        inference_pools: whether servers with vLLM get InferencePools.
        node_image_family: image family of nodes whose Workspace names none.
        preset_registry: registry and folder of the images that serve and tune models, Kaito's
            `PRESET_REGISTRY_NAME`.
        hugging_face: address of Hugging Face or a mirror; empty to look up no model that is not in
            the catalogue.
    """

    cloud: Cloud = Cloud.AZURE
    provisioner: Provisioner = Provisioner.NODE_CLAIMS
    vllm: bool = True
    mig: bool = False
    accelerators: bool = False
    auto_upgrade: bool = True
    inference_pools: bool = False
    node_classes: NodeClassSettings = field(default_factory=NodeClassSettings)
    node_image_family: str = "ubuntu"
    preset_registry: str = "mcr.microsoft.com/aks/kaito"
    hugging_face: str = "https://huggingface.co"
    claims: ClaimSettings = field(default_factory=ClaimSettings)
    batch: int = 64

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> KaitoOptions:
        """Read Kaito's environment variables, `NODE_PROVISIONER` for its flag, and Hugging Face's.

        Raises:
            ValueError: one has an unknown value, or is missing; the message names it.
        """
        default = cls()
        provisioner = one_of("NODE_PROVISIONER", environment, default.provisioner)
        node_classes = NodeClassSettings.from_environment(environment)
        if provisioner is Provisioner.NODE_POOLS and not node_classes.classes:
            raise ValueError(
                "KARPENTER_NODE_CLASSES is missing: NodePools need a NodeClass, and "
                f"NODE_PROVISIONER is {provisioner.value!r}"
            )
        return cls(
            cloud=one_of("CLOUD_PROVIDER", environment, default.cloud),
            provisioner=provisioner,
            node_classes=node_classes,
            node_image_family=_default_family(environment, default.node_image_family),
            preset_registry=environment.get("PRESET_REGISTRY_NAME") or default.preset_registry,
            hugging_face=_hugging_face(environment, default.hugging_face),
        )

    @property
    def has_own_nodes(self) -> bool:
        """True if no node is ever provisioned."""
        return self.provisioner is Provisioner.OWN_NODES

    def runtime(self, annotations: Mapping[str, str]) -> Runtime:
        """Return the software that serves the model of an object with these annotations."""
        if not self.vllm or annotations.get(labels.RUNTIME) == Runtime.TRANSFORMERS.value:
            return Runtime.TRANSFORMERS
        return Runtime.VLLM


def one_of(name: str, environment: Mapping[str, str], default: E) -> E:
    """Return the value of a variable, which must be a member of the default's enumeration.

    Raises:
        ValueError: it is not; the message names the variable and all members.
    """
    kind, text = type(default), environment.get(name) or default.value
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(each.value for each in kind)
        raise ValueError(f"{name} is {text!r}, and must be one of {known}") from None


def _hugging_face(environment: Mapping[str, str], default: str) -> str:
    """Return the address of Hugging Face, to which a token may be sent; empty if it is offline."""
    if environment.get("HF_HUB_OFFLINE", "").upper() in _YES:
        return ""
    address = environment.get("HF_ENDPOINT") or default
    if not _HTTPS.fullmatch(address):
        raise ValueError("HF_ENDPOINT must be an address with https, without a user")
    return address


def _default_family(environment: Mapping[str, str], default: str) -> str:
    """Return the family of images of nodes, Kaito's flag `--default-node-image-family`."""
    text = environment.get("DEFAULT_NODE_IMAGE_FAMILY") or default
    family = image_family(text)
    if family is None:
        known = ", ".join(IMAGE_FAMILIES)
        raise ValueError(f"DEFAULT_NODE_IMAGE_FAMILY is {text!r}, and must be one of {known}")
    return family


def image_family(value: str) -> str | None:
    """Return the family of node images of that name, in any case; None if there is none."""
    family = value.strip().lower()
    return family if family in IMAGE_FAMILIES else None
