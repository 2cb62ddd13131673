"""The actors that send requests to the dashboards, one for each head, and what they share."""
