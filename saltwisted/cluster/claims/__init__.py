"""
Claims of members, granted by the other members over the links, or by an etcd.
"""
