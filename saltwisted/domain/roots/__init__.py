"""
What replicated roots mean: versions, batches and generations, as values and pure functions.

No file is opened here and no clock is read; the drivers are L{saltwisted.stores.roots.store},
L{saltwisted.stores.roots.worktree} and L{saltwisted.cluster.roots.sync}.
"""
