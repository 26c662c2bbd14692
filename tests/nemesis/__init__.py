"""
Faults from outside against a real cluster, and what was acknowledged looked for afterwards.

C{world} builds nodes on hosts and disks of their own, C{clients} work at random nodes and write
down what they were told, C{faults} is the nemesis, C{checker} judges a history and knows nothing
of how saltwisted works: words, exit codes and answers on the wire are all that it is given. The
invariants are in C{docs/replication.md}. C{python -m tests.nemesis --help} runs it.
"""
