"""
Git as a source of files: which ref is which environment, and what is at a path in a tree of
commits.
"""
