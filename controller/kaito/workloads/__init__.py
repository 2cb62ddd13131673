"""The bodies of everything that a Workspace creates besides nodes, as pure functions.

docs/design.md describes what changes in an existing workload, and when a model server restarts.
"""

from __future__ import annotations

from controller.kaito.workloads.pods import (
    BASE_TAG,
    LOCAL_DISK_CLASS,
    base_image,
    engine_metadata,
)
from controller.kaito.workloads.preset import (
    Operations,
    image_upgrade,
    is_benchmarked,
    is_on_local_disk,
    preset_changes,
    preset_stateful_set,
    server_image,
    services,
    template_changes,
)
from controller.kaito.workloads.revisions import (
    HistoryStep,
    Revision,
    RevisionState,
    headless_service_name,
    next_revision,
    possible_names,
)
from controller.kaito.workloads.server import Serving, template_stateful_set, workload_gpus
from controller.kaito.workloads.tuning import (
    Tuning,
    config_name,
    default_config_map,
    results_folder,
    tuning_job,
)

__all__ = [
    "BASE_TAG",
    "LOCAL_DISK_CLASS",
    "HistoryStep",
    "Operations",
    "Revision",
    "RevisionState",
    "Serving",
    "Tuning",
    "base_image",
    "config_name",
    "default_config_map",
    "engine_metadata",
    "headless_service_name",
    "image_upgrade",
    "is_benchmarked",
    "is_on_local_disk",
    "next_revision",
    "possible_names",
    "preset_changes",
    "preset_stateful_set",
    "results_folder",
    "server_image",
    "services",
    "template_changes",
    "template_stateful_set",
    "tuning_job",
    "workload_gpus",
]
