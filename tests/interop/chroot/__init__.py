"""
States that touch a machine, on a machine of their own: a Debian 12 in a directory.

C{root} makes the directory and lets commands run in a throw-away copy of it; C{driver} runs
there; C{cases/*.yaml} say what is applied; C{test_chroot} compares ours with stock and looks at
what was left behind.
"""
