"""The environment with a pinned Ray that `manta dev --ray` and `make demo KIND=rayjob` run.

`environment.py` says where it is and what its processes are given, `creation.py` makes it, once,
from `ray.lock`. `python -m controller.command.development.rayenv` makes it too and prints its
folder.
"""

from controller.command.development.rayenv.creation import create_ray_environment
from controller.command.development.rayenv.environment import (
    VARIABLES,
    RayEnvironment,
    ray_environment,
)

__all__ = ["VARIABLES", "RayEnvironment", "create_ray_environment", "ray_environment"]
