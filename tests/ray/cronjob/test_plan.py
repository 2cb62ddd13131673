"""What is planned for a RayCronJob, as tables of times and RayJobs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from controller.apimachinery.patches import difference
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.cronjob import RayCronJobKind
from controller.ray.settings import RaySettings, granted
from controller.runtime.plan import Create, Delete, Failure
from tests.fakes.verbs import needed
from tests.ray.cluster.support import does_nothing, unreadable
from tests.ray.cronjob.support import (
    UID,
    at,
    created,
    cron_job,
    deleted,
    job,
    job_spec,
    name_of,
    plan,
    reads,
    ready,
    stamp,
    succeeded,
    told,
    with_status,
    writes,
)

SECOND = timedelta(seconds=1)


def scheduled(last: datetime) -> dict[str, Any]:
    return {"lastScheduleTime": stamp(last)}


# -- ticks


def test_at_a_tick_its_rayjob_is_made():
    made = plan(cron_job(), now=at(10))
    (write,) = writes(made)
    assert isinstance(write, Create)
    minutes = int(at(10).timestamp()) // 60
    assert write.target.name == f"cron-{minutes}"
    assert write.body == {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": f"cron-{minutes}",
            "namespace": "default",
            "labels": {"ray.io/cronjob-name": "cron"},
            "annotations": {"ray.io/cronjob-scheduled-timestamp": "2026-08-20T10:00:00Z"},
            "ownerReferences": [
                {
                    "apiVersion": "ray.io/v1",
                    "kind": "RayCronJob",
                    "name": "cron",
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": job_spec(),
    }
    assert made.requeue_after == 3600
    assert made.status is None  # nothing is said of a RayJob that nobody has seen
    assert write.on_success is not None
    assert write.on_success.reason == "CreatedRayJob"


@pytest.mark.parametrize("last", [None, at(10), at(11, 59)])
def test_of_many_missed_ticks_only_the_latest_is_made_up_for(last: datetime | None):
    status = scheduled(last) if last else {}
    made = plan(cron_job(status, schedule="*/10 * * * *"), now=at(20, 5))
    assert created(made) == [name_of(at(20))]
    assert made.requeue_after == 300


def test_an_interval_counts_from_the_creation_and_then_from_the_last_tick():
    every = {"schedule": "@every 70m"}
    assert plan(cron_job(**every), now=at(9, 31)).requeue_after == 69 * 60
    assert created(plan(cron_job(**every), now=at(10, 40))) == [name_of(at(10, 40))]
    later = plan(cron_job(scheduled(at(10, 40)), **every), now=at(14, 30))
    assert created(later) == [name_of(at(14, 10))]
    assert later.requeue_after == 50 * 60


def test_a_time_zone_counts_and_without_one_the_operators_own():
    nine = {"schedule": "0 9 * * *"}
    taipei = plan(cron_job(timeZone="Asia/Taipei", **nine), now=at(10))
    assert taipei.requeue_after == 15 * 3600
    local = RayCronJobKind(RaySettings(local_zone=ZoneInfo("America/New_York")))
    assert created(plan(cron_job(**nine), now=at(13), kind=local)) == [name_of(at(13))]


def test_after_a_clock_has_jumped_ahead_and_back_the_next_tick_is_made_and_none_twice():
    ahead = job(at(20))  # made at 10:10, when the clock showed 20:10
    back = plan(cron_job(scheduled(at(20))), ahead, now=at(10, 12))
    assert created(back) == [], "whether the tick of 10:00 was served is not known any more"
    assert back.status is not None
    assert back.status.wanted["lastScheduleTime"] == stamp(at(10))
    assert back.requeue_after == 48 * 60
    mended = with_status(cron_job(scheduled(at(20))), back)
    assert created(plan(mended, ahead, now=at(11))) == [name_of(at(11))]
    late = with_status(mended, plan(mended, ahead, job(at(19)), now=at(19, 1)))
    assert created(plan(late, ahead, job(at(19)), now=at(20))) == [], "this one was made early"
    assert created(plan(late, ahead, job(at(19)), now=at(21))) == [name_of(at(21))]


def test_a_clock_that_had_jumped_ahead_before_the_first_tick_holds_nothing_back():
    back = plan(cron_job(scheduled(at(19))), now=at(9, 40))
    assert back.status is not None
    assert back.status.wanted["lastScheduleTime"] is None
    mended = with_status(cron_job(scheduled(at(19))), back)
    assert created(plan(mended, now=at(10))) == [name_of(at(10))]


@pytest.mark.parametrize("odd", ["2999-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "soon", 5, None])
def test_a_last_time_that_cannot_be_is_not_believed(odd: Any):
    kept = cron_job({"lastScheduleTime": odd})
    assert created(plan(kept, now=at(10))) == [name_of(at(10))]
    seen = plan(kept, job(at(10)), now=at(10, 0, 1))
    assert seen.status is not None
    assert seen.status.wanted["lastScheduleTime"] == stamp(at(10))


def test_a_schedule_that_never_ticks_says_so_once():
    kept = cron_job(schedule="0 0 30 2 *")
    made = plan(kept, now=at(10))
    assert (writes(made), made.requeue_after) == ([], None)
    assert ready(made)[:2] == ("False", "NeverDue")
    assert told(made) == ["Warning NeverDue"]
    assert told(plan(with_status(kept, made), now=at(11))) == []


# -- suspend, deletion, what is wrong


def test_a_suspended_one_makes_nothing_and_says_so_once():
    kept = cron_job(suspend=True)
    made = plan(kept, now=at(10))
    assert (writes(made), made.requeue_after) == ([], None)
    assert ready(made)[:2] == ("False", "SuspendedRayCronJob")
    assert told(made) == ["Normal SuspendedRayCronJob"]
    assert told(plan(with_status(kept, made), now=at(11))) == []


def test_a_deleted_one_is_left_to_the_garbage_collector():
    gone = cron_job(terminating=True, failedJobsHistoryLimit=0)
    assert does_nothing(plan(gone, job(at(9), "Failed"), now=at(10)))


def test_one_that_is_not_valid_follows_what_it_has_begun():
    kept = cron_job(schedule="61 * * * *")
    runs = plan(kept, job(at(9)), now=at(10)).status
    assert runs is not None
    assert [each["name"] for each in runs.wanted["active"]] == [name_of(at(9))]
    done = plan(with_status(kept, plan(kept, job(at(9)), now=at(10))), succeeded(at(9)), now=at(10))
    assert done.status is not None
    assert not done.status.wanted["active"]
    assert done.status.wanted["lastSuccessfulTime"]


def test_a_name_that_belongs_to_somebody_else_is_a_condition_until_it_is_free():
    foreign = job(at(10), owner="uid-of-another")
    kept = cron_job()
    made = plan(kept, foreign, now=at(10, 5))
    assert writes(made) == []
    status, reason, message = ready(made)
    assert (status, reason) == ("False", "NameTaken")
    assert name_of(at(10)) in message
    assert "belongs to RayCronJob cron (uid uid-of-another)" in message
    assert told(made) == ["Warning NameTaken"]
    assert told(plan(with_status(kept, made), foreign, now=at(10, 6))) == []
    assert made.requeue_after == 55 * 60
    assert created(plan(with_status(kept, made), now=at(10, 7))) == [name_of(at(10))]


def test_a_rayjob_that_cannot_be_read_holds_its_name():
    made = plan(
        cron_job(),
        now=at(10),
        odd=unreadable(name_of(at(10)), "metadata: expected object", resource=RAYJOBS),
    )
    assert (writes(made), ready(made)[1]) == ([], "NameTaken")
    assert "cannot be read: metadata: expected object" in ready(made)[2]


def test_while_a_write_is_unknown_nothing_is_made_and_nothing_deleted():
    made = plan(
        cron_job(successfulJobsHistoryLimit=0),
        succeeded(at(9)),
        now=at(10),
        pending=frozenset({"rayjobs"}),
    )
    assert (writes(made), made.status) == ([], None)
    assert made.requeue_after == 3600


def test_where_there_are_no_rayjobs_the_server_is_asked_to_make_one_all_the_same():
    assert created(plan(cron_job(), now=at(10), rayjobs_served=False)) == [name_of(at(10))]


# -- concurrency


def test_forbid_waits_for_the_end_of_the_earlier_one_and_then_makes_up_for_the_latest():
    kept = cron_job(scheduled(at(10)), concurrencyPolicy="Forbid")
    made = plan(kept, job(at(10)), now=at(12, 20))
    assert writes(made) == []
    status, reason, message = ready(made)
    assert (status, reason) == ("True", "JobAlreadyActive")
    assert message == (
        f"RayJob {name_of(at(12))}, due at 2026-08-20T12:00:00Z, waits for the end of "
        f"RayJob {name_of(at(10))}, because spec.concurrencyPolicy is Forbid"
    )
    assert told(made) == ["Normal JobAlreadyActive"]
    assert made.requeue_after == 40 * 60
    assert told(plan(with_status(kept, made), job(at(10)), now=at(12, 21))) == []
    assert created(plan(kept, succeeded(at(10)), now=at(12, 25))) == [name_of(at(12))]


def test_of_many_that_are_waited_for_three_are_named():
    runs = [job(at(hour)) for hour in range(10)]
    made = plan(cron_job(scheduled(at(9)), concurrencyPolicy="Forbid"), *runs, now=at(10))
    listed = ", ".join(name_of(at(hour)) for hour in range(3))
    assert f"waits for the end of RayJob {listed} and 7 more, because" in ready(made)[2]


def test_forbid_waits_for_one_that_is_going_too():
    kept = cron_job(scheduled(at(10)), concurrencyPolicy="Forbid")
    assert created(plan(kept, job(at(10), terminating=True), now=at(11))) == []


def test_replace_deletes_the_earlier_ones_first_and_by_uid():
    kept = cron_job(scheduled(at(11)), concurrencyPolicy="Replace")
    runs = [succeeded(at(9)), job(at(10)), job(at(11)), job(name="by-hand")]
    first, second = plan(kept, *runs, now=at(12)).stages
    assert sorted(write.target.name for write in first) == sorted(
        [name_of(at(10)), name_of(at(11)), "by-hand"]
    )
    for write in first:
        assert isinstance(write, Delete)
        assert write.uid == f"uid-of-{write.target.name}"
    assert [write.target.name for write in second] == [name_of(at(12))]


# -- starting deadline


@pytest.mark.parametrize(
    ("seconds", "late", "is_made"),
    [(None, 3599, True), (60, 59, True), (60, 60, False), (0, 0, False), (2**62, 3599, True)],
)
def test_a_tick_is_made_up_for_until_its_deadline(seconds: int | None, late: int, is_made: bool):
    spec = {} if seconds is None else {"startingDeadlineSeconds": seconds}
    made = plan(cron_job(**spec), now=at(10) + late * SECOND)
    assert created(made) == ([name_of(at(10))] if is_made else [])


def test_a_missed_deadline_is_reported_once_and_the_next_tick_is_made():
    kept = cron_job(startingDeadlineSeconds=60)
    made = plan(kept, now=at(10, 5))
    assert ready(made)[:2] == ("True", "MissSchedule")
    assert ready(made)[2] == (
        "no RayJob was created for 2026-08-20T10:00:00Z: its starting deadline had passed; "
        "the next one is due at 2026-08-20T11:00:00Z"
    )
    assert told(made) == ["Warning MissSchedule"]
    assert made.requeue_after == 55 * 60
    assert made.status is not None
    assert "lastScheduleTime" not in made.status.wanted
    assert told(plan(with_status(kept, made), now=at(10, 6))) == []
    assert created(plan(with_status(kept, made), now=at(11))) == [name_of(at(11))]


def test_what_waits_for_an_earlier_one_is_given_up_at_its_deadline():
    spec = {"concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 600}
    kept = cron_job(scheduled(at(10)), **spec)
    waiting = plan(kept, job(at(10)), now=at(11, 2))
    assert (ready(waiting)[1], waiting.requeue_after) == ("JobAlreadyActive", 480)
    given_up = plan(kept, job(at(10)), now=at(11, 10))
    assert (ready(given_up)[1], given_up.requeue_after) == ("MissSchedule", 50 * 60)


# -- history


ENDED = [
    succeeded(at(1)),
    job(at(2), "Failed"),
    succeeded(at(3)),
    job(at(4), "Complete", "FAILED"),
    job(at(5), "ValidationFailed"),
    succeeded(at(6), terminating=True),
    succeeded(at(7)),
    job(at(8)),
    job(at(9), "Suspended"),
]


@pytest.mark.parametrize(
    ("limits", "hours"),
    [
        ({}, []),
        ({"successfulJobsHistoryLimit": 3}, []),
        ({"successfulJobsHistoryLimit": 4, "failedJobsHistoryLimit": 2**31 - 1}, []),
        ({"successfulJobsHistoryLimit": 2}, [1]),
        ({"successfulJobsHistoryLimit": 0}, [1, 3, 7]),
        ({"failedJobsHistoryLimit": 1}, [2, 4]),
        ({"failedJobsHistoryLimit": 0, "successfulJobsHistoryLimit": 1}, [1, 3, 2, 4, 5]),
    ],
)
@pytest.mark.parametrize("suspend", [False, True])
def test_beyond_its_limits_history_goes_the_oldest_first(
    limits: dict[str, int], hours: list[int], suspend: bool
):
    kept = cron_job(scheduled(at(9)), suspend=suspend, **limits)
    made = plan(kept, *reversed(ENDED), now=at(9, 40))
    assert deleted(made) == [name_of(at(hour)) for hour in hours]
    for write in writes(made):
        assert isinstance(write, Delete)
        assert write.uid == f"uid-of-{write.target.name}"


@pytest.mark.parametrize(
    ("last", "hours"),
    [(None, []), (at(1), [1]), (at(2), [1]), (at(3), [1, 3]), (at(9) + timedelta(days=2), [])],
)
def test_beyond_the_limits_only_those_go_whose_tick_the_status_names(
    last: datetime | None, hours: list[int]
):
    """Else the tick would be served again by an operator that knows no more than the status."""
    kept = cron_job(scheduled(last) if last else {}, successfulJobsHistoryLimit=0)
    made = plan(kept, succeeded(at(1)), succeeded(at(3)), now=at(3, 40))
    assert deleted(made) == [name_of(at(hour)) for hour in hours]


def test_where_no_status_can_be_written_only_the_rayjobs_of_the_last_day_pile_up():
    runs = [succeeded(at(hour)) for hour in (1, 2, 3)]
    kept = cron_job(successfulJobsHistoryLimit=0, suspend=True)
    day = timedelta(days=1)
    assert deleted(plan(kept, *runs, now=at(2) + day - SECOND)) == []
    assert deleted(plan(kept, *runs, now=at(2) + day)) == [name_of(at(1))]
    assert deleted(plan(kept, *runs, now=at(3) + day)) == [name_of(at(1)), name_of(at(2))]


def test_a_rayjob_that_is_being_deleted_keeps_no_tick_from_being_served_again():
    runs = [succeeded(at(1)), succeeded(at(2), terminating=True)]
    kept = cron_job(successfulJobsHistoryLimit=0, suspend=True)
    assert deleted(plan(kept, *runs, now=at(3) + timedelta(days=1))) == []


def test_one_of_a_clock_that_ran_ahead_goes_although_the_status_names_an_earlier_tick():
    kept = cron_job(scheduled(at(3)), successfulJobsHistoryLimit=0)
    made = plan(kept, succeeded(at(9)), now=at(3, 40))
    assert deleted(made) == [name_of(at(9))]


# -- status


def test_the_last_success_never_goes_back():
    kept = cron_job(scheduled(at(9)))
    made = plan(kept, *ENDED, now=at(9, 40))
    assert made.status is not None
    assert made.status.wanted["lastSuccessfulTime"] == stamp(at(7, 10))
    later = plan(with_status(kept, made), now=at(9, 50))
    assert later.status is not None
    assert later.status.wanted["lastSuccessfulTime"] == stamp(at(7, 10))
    assert later.status.wanted["active"] is None


def status_after(
    kept: Any, *runs: Any, now: datetime, made: Any, message: str = "the server said no"
) -> Any:
    kind = RayCronJobKind()
    seen = kind.observe("default/cron", reads(kept, *runs))
    assert seen is not None
    failures = tuple(Failure(write, "Forbidden", message) for write in writes(made))
    return kind.status_after(seen, made, failures, now)


def test_a_refusal_that_is_longer_than_a_message_is_reported_once():
    kept, words = cron_job(), "no " * 3000
    status = status_after(kept, now=at(10), made=plan(kept, now=at(10)), message=words)
    assert len(status.events) == 1
    said = msgspec.structs.replace(kept, status=dict(status.wanted))
    again = status_after(said, now=at(10, 1), made=plan(said, now=at(10, 1)), message=words)
    assert again.events == ()


def test_a_refused_rayjob_is_named_with_the_servers_words_and_told_once():
    kept = cron_job()
    made = plan(kept, now=at(10))
    status = status_after(kept, now=at(10), made=made)
    said = msgspec.structs.replace(kept, status=dict(status.wanted))
    (condition,) = status.wanted["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "AdmissionDenied")
    assert condition["message"] == (
        f"RayJob {name_of(at(10))}: cannot be created: the server said no; change the template "
        "accordingly, or ask for another policy"
    )
    assert [(e.type, e.reason) for e in status.events] == [("Warning", "FailedToCreateRayJob")]
    again = status_after(said, now=at(10, 1), made=plan(said, now=at(10, 1)))
    assert again.events == ()
    assert difference(said.status, again.wanted) == {}
    assert "lastScheduleTime" not in status.wanted


def test_a_refused_deletion_is_named():
    kept = cron_job(scheduled(at(9)), successfulJobsHistoryLimit=0)
    made = plan(kept, succeeded(at(9)), now=at(9, 40))
    status = status_after(kept, succeeded(at(9)), now=at(9, 40), made=made)
    assert [event.reason for event in status.events] == ["FailedToDeleteRayJob"]


def test_kuberays_role_allows_what_is_planned():
    kind = RayCronJobKind()
    for resource in (RAYCRONJOBS, *(owned.resource for owned in kind.owned)):
        assert {"list", "watch"} <= granted(resource)
    kept = cron_job(scheduled(at(10)), concurrencyPolicy="Replace")
    for write in writes(plan(kept, job(at(10)), now=at(11))):
        assert needed(write) <= granted(write.target.resource)
    assert {"get", "patch"} <= granted(RAYCRONJOBS, "status")
