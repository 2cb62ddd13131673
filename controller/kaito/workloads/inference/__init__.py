"""The servers of models: StatefulSets, their services, and their changes."""
