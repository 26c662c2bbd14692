"""
Looking after a master: status, doctor, backup and restore, as an operator runs them.
"""
