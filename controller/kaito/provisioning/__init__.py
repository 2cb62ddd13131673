"""The nodes that a Workspace gets: decisions on values, without a clock and without I/O."""
