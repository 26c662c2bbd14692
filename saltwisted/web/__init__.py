"""
The HTTP interface of a master: the API with the words of Salt's rest_cherrypy, metrics and health.

It uses the master's table of operations, as the control socket does, and makes no decisions about
rights.
"""
