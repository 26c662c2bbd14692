"""
Replication without sockets and disks: clocks, entries, knowledge, folds, and what to ship to whom.
"""
