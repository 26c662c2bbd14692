"""
Git in a cluster: one node fetches, the others have what it fetched.
"""
