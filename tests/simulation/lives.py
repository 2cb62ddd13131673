"""All that lives can be about."""

from __future__ import annotations

from tests.simulation import strategies
from tests.simulation.cron_strategies import lives_of_crons
from tests.simulation.disruption_strategies import lives_of_disruptions
from tests.simulation.election_strategies import lives_of_elections
from tests.simulation.handover_strategies import lives_of_handovers
from tests.simulation.idle_strategies import lives_of_idle
from tests.simulation.restore_strategies import lives_of_restores

LIVES = {
    "rays": strategies.scenarios,
    "clusters": strategies.lives_of_clusters,
    "jobs": strategies.lives_of_jobs,
    "services": strategies.lives_of_services,
    "rolling": strategies.lives_of_rolling,
    "workspaces": strategies.lives_of_workspaces,
    "idle": lives_of_idle,
    "disruptions": lives_of_disruptions,
    "crons": lives_of_crons,
    "elections": lives_of_elections,
    "restores": lives_of_restores,
    "handovers": lives_of_handovers,
}
"""By what they are about; the first are of all kinds of Ray that run something."""
