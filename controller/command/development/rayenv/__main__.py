"""`python -m controller.command.development.rayenv`: create the environment and print its path."""

from __future__ import annotations

import asyncio
import sys

from controller.command.development.rayenv.creation import create_ray_environment
from controller.command.development.rayenv.environment import progress_for_people, ray_environment
from controller.kube.errors import ConfigurationError


def main() -> int:
    """Create the environment; returns the exit status."""
    environment = ray_environment()
    progress = progress_for_people()
    try:
        asyncio.run(create_ray_environment(environment, progress))
    except ConfigurationError as error:
        sys.stderr.write(f"manta: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        progress.close()
    sys.stdout.write(f"{environment.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
