"""The commands that serve or tune a model with Hugging Face Transformers."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from controller.kaito.presets.catalogue import model_id
from controller.kaito.presets.command_line import in_shell, with_flags
from controller.kaito.presets.tables import Row, read_table

if TYPE_CHECKING:
    from controller.kaito.presets.model import Model

# Source of commands and flags: kaito-project/kaito at 056b8280, pkg/model/interface.go and
# presets/workspace/models/transformer_runtime_{inference,tuning}_parameters.go.
_LAUNCH: Final = "accelerate launch"
_LAUNCH_FLAGS: Final = {
    "num_processes": "1",
    "num_machines": "1",
    "machine_rank": "0",
    "gpu_ids": "all",
}
_SERVE: Final = "/workspace/tfs/inference_api.py"
_LAUNCH_TUNING: Final = f"cd /workspace/tfs/ && python3 metrics_server.py & {_LAUNCH}"
_TUNE: Final = "/workspace/tfs/fine_tuning.py"


class _Family(Row, frozen=True):
    """Models with the same flags."""

    flags: dict[str, str]
    models: tuple[str, ...]


class _Families(Row, frozen=True):
    """`transformers.yaml`."""

    families: dict[str, _Family]


class TunableModel(Row, frozen=True):
    """A model that can be tuned.

    Attributes:
        name: the last part of its id in lower case.
        disk: storage request of the node.
        weights: size of the weights, as Kaito records it.
        repository: its id on Hugging Face.
        revision: commit of the weights there.
        weights_tag: tag of the image that holds the weights.
        weights_name: name of that image, empty for the model's name.
    """

    name: str
    disk: str
    weights: str
    repository: str
    revision: str
    weights_tag: str
    weights_name: str = ""


def serves_with_transformers(model: Model) -> bool:
    """Return whether this runtime serves the model."""
    return model.short_name in _flags()


def transformers_command(model: Model) -> list[str]:
    """Return the `command` of the container that serves the model.

    Raises:
        KeyError: this runtime does not serve it.
    """
    flags = _flags()[model.short_name] | {
        "served_model_name": model.short_name,
        "pretrained_model_name_or_path": model.repository,
        "allow_remote_files": "",
    }
    return in_shell(f"{with_flags(_LAUNCH, _LAUNCH_FLAGS)} {with_flags(_SERVE, flags)}")


def tuning_command(gpus: int) -> list[str]:
    """Return the `command` of the container that tunes a model on so many GPUs."""
    return in_shell(f"{with_flags(_LAUNCH_TUNING, {'num_processes': str(gpus)})} {_TUNE}")


def find_tunable_model(preset: str) -> TunableModel | None:
    """Return the model that the name of a preset stands for, None if it cannot be tuned."""
    return tunable_models().get(model_id(preset).rpartition("/")[2])


@cache
def tunable_models() -> dict[str, TunableModel]:
    """Return the models that can be tuned, by the last part of their ids in lower case."""
    return {each.name: each for each in read_table("tuning.yaml", tuple[TunableModel, ...])}


@cache
def _flags() -> dict[str, dict[str, str]]:
    families = read_table("transformers.yaml", _Families).families.values()
    return {name: family.flags for family in families for name in family.models}
