"""
What replicated roots mean: versions, batches and generations, as values and pure functions.

No file is opened here and no clock is read; the drivers are C{stores.rootstore},
C{stores.worktree} and C{cluster.rootsync}.
"""
