"""The controllers of Jobs and StatefulSets."""
