"""
What a master does by itself: it reacts to events.

Rules are in C{domain/reactions}; who of several masters does it is asked of C{seams.claims}. Orders
and errors go to the log and, as events, to the bus.
"""
