"""
Git as a source of files: which ref is which environment, and what a tree of commits has at a path.
"""
