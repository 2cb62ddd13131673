"""Stable ids of commands to Ray, so that repeating a command has no second effect."""

from __future__ import annotations

from typing import Final


def submit_command_id(job_id: str) -> str:
    """Return the id of the command that submits this job."""
    return f"submit/{job_id}"


def stop_command_id(job_id: str, occasion: str = "") -> str:
    """Return the id of the command that stops this job, on one of `STOP_OCCASIONS`."""
    return f"stop/{job_id}{occasion}"


LATE: Final = "/late"
DELETED: Final = "/deleted"
STOP_OCCASIONS: Final = (DELETED, LATE, "")
"""The occasions on which a job is stopped: the RayJob is deleted, Ray knows a job that it did not
know when it was asked to stop it, and the first of all. No stop waits for the pauses of another.
"""
