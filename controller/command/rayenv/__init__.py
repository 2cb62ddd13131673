"""The environment with a pinned Ray that `manta dev --ray` and `make demo KIND=rayjob` run.

`environment.py` says where it is and what its processes are given, `making.py` makes it, once, from
`ray.lock`. `python -m controller.command.rayenv` makes it too and prints its folder.
"""

from controller.command.rayenv.environment import VARIABLES, RayEnvironment, ray_environment
from controller.command.rayenv.making import make_ray_environment

__all__ = ["VARIABLES", "RayEnvironment", "make_ray_environment", "ray_environment"]
