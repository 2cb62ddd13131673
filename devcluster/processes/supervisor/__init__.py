"""The program around every command of a pod: it enters the pod, starts the command and ends it.

It runs as processes of its own, so that it may change namespaces, and uses only the standard
library. It waits only for signals and for the end of the cluster's process, which the lifeline (a
named pipe) shows.
"""
