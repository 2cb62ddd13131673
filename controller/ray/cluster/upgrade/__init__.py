"""How a changed specification reaches the pods of a running cluster."""
