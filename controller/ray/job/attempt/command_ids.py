"""The identities of what is asked of Ray: stable, so that asking again repeats nothing."""

from __future__ import annotations


def submit_command_id(job_id: str) -> str:
    """Identity of the command that submits this job."""
    return f"submit/{job_id}"


def stop_command_id(job_id: str) -> str:
    """Identity of the command that stops this job."""
    return f"stop/{job_id}"
