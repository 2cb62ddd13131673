"""`manta debug`: the debug page of a running operator, for people or as JSON."""

from controller.command.debug.run import debug

__all__ = ["debug"]
