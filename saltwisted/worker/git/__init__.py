"""
Git repositories: fetched by the git program, and read by libgit2.
"""
