"""
What a master does by itself: it reacts to events.

The rules are in C{domain/reactions}; C{seams.claims} decides which of several masters reacts.
Reactions and errors go to the log and, as events, to the bus.
"""
