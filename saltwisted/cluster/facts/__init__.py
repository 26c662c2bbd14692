"""
Facts that all members share: keys, logins, grains, secrets.
"""
