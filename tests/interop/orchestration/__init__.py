"""
Orchestrations of stock's master and of ours, with minions of stock.
"""
