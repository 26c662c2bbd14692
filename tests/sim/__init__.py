"""
Our minion's connection machines and several masters on a fake clock, with a wire that fails.

L{tests.sim.world} is the machinery; C{python -m tests.sim --seeds 10000} runs more of it.
"""
