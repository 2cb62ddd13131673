"""ConfigMap: the view of the options of a model server or a tuning."""

from __future__ import annotations

from typing import Final

import msgspec

from controller.kaito.api.validation.config_maps import INFERENCE_KEY, TRAINING_KEY
from controller.kube.objects import KubeObject, View
from controller.kube.resources import Resource


class OptionTexts(View, frozen=True):
    """`data`, of which two keys count."""

    inference: str | None = msgspec.field(default=None, name=INFERENCE_KEY)
    training: str | None = msgspec.field(default=None, name=TRAINING_KEY)


class OptionsMap(KubeObject, frozen=True):
    """A ConfigMap."""

    data: OptionTexts | None = None

    @property
    def texts(self) -> dict[str, str]:
        """Those of the two keys that it has."""
        found = self.data or OptionTexts()
        pairs = ((INFERENCE_KEY, found.inference), (TRAINING_KEY, found.training))
        return {key: text for key, text in pairs if text is not None}


OPTIONS_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", OptionsMap, part="options")
