"""
What one peer may cost at each door: judged by ratios of thread CPU, never by wall time.
"""
