"""Images of containers, and complete references of images that users name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controller.kaito.api.options import Runtime
from controller.kaito.api.validation.image_reference import image_problem, split_domain

if TYPE_CHECKING:
    from controller.kaito.api.options import KaitoOptions

# Source: kaito-project/kaito at 056b8280, presets/workspace/models/supported_models.yaml (base),
# pkg/workspace/image, pkg/utils/common_preset.go, pkg/utils/consts/consts.go.
BASE_TAG: Final = "0.5.0"
"""Tag of the image that serves and tunes all models."""

_ENGINE_VERSIONS: Final = {Runtime.VLLM: "0.25.1", Runtime.TRANSFORMERS: "5.14.1"}

PULLER: Final = "mcr.microsoft.com/aks/skopeo:1.14.4-6"
PUSHER: Final = "ghcr.io/oras-project/oras:v1.2.2"
DOWNLOADER: Final = "curlimages/curl"
WEIGHTS_DOWNLOADER: Final = "mcr.microsoft.com/oss/v2/oras-project/oras:v1.2.3"
ROUTING_SIDECAR: Final = "mcr.microsoft.com/oss/v2/llm-d/llm-d-routing-sidecar:v0.8.0"

_TAG_BESIDE_DIGEST: Final = re.compile(r"(:[\w][\w.-]*)(?=@)", re.ASCII)


def engine_metadata(runtime: Runtime) -> dict[str, str]:
    """Return the engine's part of a measurement. Here Kaito knows no model's quantization."""
    return {
        "engine": runtime.value,
        "engineVersion": _ENGINE_VERSIONS[runtime],
        "quantization": "",
    }


def base_image(options: KaitoOptions) -> str:
    """Return the image that serves and tunes models."""
    return f"{options.preset_registry}/kaito-base:{BASE_TAG}"


def weights_image(name: str, tag: str, options: KaitoOptions) -> str:
    """Return the image that holds the weights of a model that can be tuned."""
    return f"{options.preset_registry}/kaito-{name}:{tag}"


def complete_reference(image: str) -> str:
    """Return the reference with registry and tag; a digest replaces the tag.

    A text that is no reference stays as it is, so that the tool that gets it names it.
    """
    if image_problem(image):
        return image
    domain, remainder = split_domain(image)
    if "@" in remainder:
        return f"{domain}/{_TAG_BESIDE_DIGEST.sub('', remainder)}"
    tag = "" if ":" in remainder else ":latest"
    return f"{domain}/{remainder}{tag}"
