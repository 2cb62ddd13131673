"""The actors that ask the dashboards: one for each head, and what they share."""
