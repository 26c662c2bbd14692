"""
What a stock master says and ours never does.
"""

from __future__ import annotations

from saltwisted.wire.msgpack import pack

CLUSTER_RETRY = pack({"enc": "clear", "load": {"ret": False, "cluster_retry": True}})
"""A member of stock's cluster whose keys are not there yet: ask again at once."""
