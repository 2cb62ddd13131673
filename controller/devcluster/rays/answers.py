"""The answers of a simulated dashboard, with the status and content type of Ray's own."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """One complete answer of a dashboard or a Serve proxy."""

    status: int
    content_type: str
    body: bytes


def json_answer(body: Any) -> Answer:
    """Return the answer of a request that succeeded."""
    return Answer(200, "application/json", json.dumps(body).encode())


def text_answer(status: int, text: str) -> Answer:
    """Return a text, as Ray answers a request that fails."""
    return Answer(status, "text/plain", text.encode())


def no_such_job(job_id: str) -> Answer:
    """Return the answer to a request about a job that Ray does not know."""
    return text_answer(404, f"Job {job_id} does not exist")


def refused_by_agent(reason: str) -> Answer:
    """Return how the dashboard passes on that the agent of the head refused a request."""
    return text_answer(
        500,
        "Traceback (most recent call last):\nRuntimeError: Request failed with status code 400: "
        f"ValueError: {reason}.",
    )


def invalid_config(field: str, error: str) -> Answer:
    """Return the refusal of a Serve config."""
    words = f"1 validation error for ServeDeploySchema\n{field}\n  {error}"
    return text_answer(400, words)
