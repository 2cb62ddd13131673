"""What asks the dashboards: one actor for each head, and what they share."""
