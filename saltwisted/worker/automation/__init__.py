"""
What a master's automation has done in worker processes: rendering what reacts to events.
"""
