"""
What pooled children do in C{test_workers}.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any


def serve(payload: dict[str, Any], client: Any, facts: Any) -> Any:
    """One call."""
    args = payload["args"]
    match payload["what"]:
        case "pid":
            return os.getpid()
        case "echo":
            return args[0]
        case "raise":
            raise ValueError(args[0])
        case "ask":
            return client.call(args[0])
        case "log":
            for level in args:
                logging.getLogger("of.site").log(level, "said %s", level)
            return None
        case "sleep":
            return time.sleep(args[0])
        case "fact":
            return facts[args[0]]
        case "exit":
            os._exit(args[0])
