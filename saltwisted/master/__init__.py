"""
The master: requests answered, jobs published, returns kept.
"""
