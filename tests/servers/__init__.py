"""
Modules and states of servers, tried with the real ones of Debian, and compared with stock's.

A server has a directory and a socket or ports of its own, and ends with the test. The scripts
(C{postgres.py} and its like) are calls in their order; L{tests.servers.record} has stock make
them, and L{tests.servers.test_recorded} ours.
"""
