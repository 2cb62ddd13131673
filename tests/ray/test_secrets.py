"""What the caches hold of Secrets."""

from __future__ import annotations

import json

from controller.command.kinds import KindSettings, kinds_of
from controller.kube.resources import SECRETS
from controller.ray.api import labels
from informers import Codec


def test_only_secrets_of_clusters_are_watched_and_their_data_is_never_kept():
    watched = [
        owned.label_selector
        for kind in kinds_of(KindSettings(), None)
        for owned in kind.owned
        if owned.resource == SECRETS
    ]
    assert watched == [labels.CLUSTER]
    secret = {"metadata": {"name": "a"}, "data": {"auth_token": "czNjcjN0"}, "stringData": {}}
    page = {"kind": "SecretList", "metadata": {"resourceVersion": "1"}, "items": [secret]}
    (kept,) = Codec(SECRETS.view).page(json.dumps(page).encode()).objects
    assert kept.metadata.name == "a"
    assert "czNjcjN0" not in repr(kept)
