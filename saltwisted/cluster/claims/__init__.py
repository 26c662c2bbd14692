"""
Claims of members: asked of the others over the links, or of an etcd.
"""
