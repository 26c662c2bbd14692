"""
C{salt.client} for a script on the master's machine, where the C{salt} package is not installed.

A script says C{import saltwisted.client} and then C{import salt.client}, as it did with stock. In
worker processes nothing needs to be said.
"""

from __future__ import annotations

from saltwisted.worker.process import saltname

saltname.install()
