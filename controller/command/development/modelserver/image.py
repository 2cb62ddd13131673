"""The environment that stands for the image of model servers: its `python3` is the stand-in."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from controller.command.development.modelserver import stand_in
from controller.devcluster.processes.images import Image


def model_server_image(folder: Path) -> Image:
    """Make the environment in a folder that does not exist yet, and describe it.

    Nothing outside of the folder is needed but the interpreter: containers have a /tmp of their
    own, where this program itself may be.

    Raises:
        OSError: it cannot be made.
    """
    programs = folder / "bin"
    programs.mkdir(parents=True)
    program = shutil.copy(stand_in.__file__, programs)
    command = shlex.join([str(Path(sys.executable).resolve()), "-I", str(program)])
    python = programs / "python3"
    python.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    python.chmod(0o755)
    return Image(folder)
