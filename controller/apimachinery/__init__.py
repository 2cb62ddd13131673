"""What every kind of every API group needs: conditions, patches, quantities, ownership; no I/O."""
