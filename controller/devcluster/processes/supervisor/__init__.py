"""The program around every command of a pod: it enters the pod, starts the command and ends it.

It runs as processes of its own, so that it may change namespaces; only the standard library is at
hand. All of its waiting is for signals and for the end of the cluster's process, which the
lifeline (a named pipe) tells.
"""
