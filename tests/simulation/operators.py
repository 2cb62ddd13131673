"""The kinds of an operator of the simulation: as they are, with referees who hear of decisions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cronjob import RayCronJobKind
from controller.ray.cronjob.observe import CronJobObservation
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.job import RayJobKind
from controller.ray.job.observation import JobObservation
from controller.ray.settings import RaySettings
from controller.runtime.plan import Plan
from tests.simulation.cron_referee import CronReferee
from tests.simulation.referee import Referee

if TYPE_CHECKING:
    from tests.simulation.job_referee import JobReferee

MINUTE = timedelta(seconds=60)
JOB_SETTINGS = RaySettings(status_check_timeout=MINUTE, transition_grace_period=MINUTE)


class WitnessedKind(RayClusterKind):
    def __init__(
        self, referee: Referee, actors: DashboardActors | None = None, *, watch_nodes: bool = False
    ) -> None:
        settings = RaySettings(watch_nodes=watch_nodes)
        if actors is None:
            super().__init__(settings)
        else:
            dashboards = actors.for_controller(self.name)
            super().__init__(settings, dashboards, dashboards)
        self._referee = referee
        self.memory = referee.memory()

    def plan(self, observation: ClusterObservation, now: datetime) -> Plan:
        plan = super().plan(observation, now)
        self._referee.planned(observation, plan, self.memory)
        return plan


class WitnessedJobKind(RayJobKind):
    """RayJobs; one operator process has its own actors."""

    def __init__(self, referee: JobReferee, actors: DashboardActors) -> None:
        dashboards = actors.for_controller(self.name)
        super().__init__(JOB_SETTINGS, dashboards, dashboards)
        self._referee = referee
        self.actors = actors

    def plan(self, observation: JobObservation, now: datetime) -> Plan:
        plan = super().plan(observation, now)
        self._referee.planned(observation, plan)
        return plan


class WitnessedCronJobKind(RayCronJobKind):
    def __init__(self, referee: CronReferee) -> None:
        super().__init__()
        self._referee = referee

    def plan(self, observation: CronJobObservation, now: datetime) -> Plan:
        plan = super().plan(observation, now)
        self._referee.planned(observation, plan, now)
        return plan
