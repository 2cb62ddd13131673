"""Single writes: sent, found out about, repeated in turns, and given up."""
