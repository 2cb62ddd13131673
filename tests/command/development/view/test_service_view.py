"""What a person sees of a RayService."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.command.development.view import ServiceView
from controller.ray.api.rayservice import RayService
from tests.command.development.view.test_job_view import Told


def service(*, ready: str = "False", active: Any = None, pending: Any = None) -> RayService:
    status = {
        "conditions": [{"type": "Ready", "status": ready}],
        "activeServiceStatus": active or {},
        "pendingServiceStatus": pending or {},
    }
    return msgspec.convert({"metadata": {"name": "svc"}, "status": status}, RayService)


def test_each_change_is_one_line():
    told = Told()
    view = ServiceView("svc", told, list)
    first, second = {"rayClusterName": "svc-a"}, {"rayClusterName": "svc-b"}
    view.saw_service("default/svc", service(pending=first))
    view.saw_service("default/svc", service(ready="True", active=first))
    assert view.is_ready
    shares = {"targetCapacity": 20, "trafficRoutedPercent": 10}
    view.saw_service("default/svc", service(ready="True", active=first, pending=second | shares))
    assert (view.active, view.pending) == ("svc-a", "svc-b")
    view.saw_service("default/other", None)
    view.saw_service("default/svc", None)
    assert told.lines == [
        "RayService svc: Ready=False",
        "RayService svc: no active cluster",
        "RayService svc: pending cluster svc-a",
        "RayService svc: Ready=True",
        "RayService svc: active cluster svc-a",
        "RayService svc: no pending cluster",
        "RayService svc: pending cluster svc-b (20 % capacity, 10 % of the requests)",
        "RayService svc: gone",
    ]


def test_the_picture_shows_the_status_and_the_lines_of_the_demo():
    told = Told()
    view = ServiceView("svc", told, lambda: ["answers of v1  17"])
    view.saw_service("default/svc", service(ready="True", active={"rayClusterName": "svc-a"}))
    for words in ("RayService svc: Ready=True", "active cluster svc-a", "answers of v1  17"):
        assert words in told.text()
