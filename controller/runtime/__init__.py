"""The controller runtime: observe, plan, execute, over reads that include the own writes.

It knows no kind. A kind implements `kind.Kind`; `operator.Operator` puts everything together.
"""
