"""
What a master shows by HTTP: the API with the words of Salt's rest_cherrypy, metrics and health.

It asks the master by the table of operations, as the control socket does, and decides nothing
about rights.
"""
