"""Stable ids of commands to Ray, so that repeating a command has no second effect."""

from __future__ import annotations


def submit_command_id(job_id: str) -> str:
    """Return the id of the command that submits this job."""
    return f"submit/{job_id}"


def stop_command_id(job_id: str) -> str:
    """Return the id of the command that stops this job."""
    return f"stop/{job_id}"
