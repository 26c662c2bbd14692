"""
Fakes for tests, ours and other people's: one for each kind of parts, in memory, without a daemon.

Each does what its Protocol in L{saltwisted.parts} says, and passes the same tests as the real
ones. How to use them is in docs/testing.md. Nothing that runs as a daemon imports this.
"""
