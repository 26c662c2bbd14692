"""
Orchestrations in processes of their own, beside a master.
"""
