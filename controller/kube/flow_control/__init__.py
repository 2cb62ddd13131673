"""Limits on sending requests: fairness among flows, rates, and pauses."""
