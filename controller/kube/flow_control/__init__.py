"""Limits on the sending of requests: fairness among flows, rates, and pauses."""
