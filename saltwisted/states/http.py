"""
Questions to web servers, whose answers must hold a text or a status.
"""

from __future__ import annotations

import logging
import re
import time
from typing import Any

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any
__monitor__ = ["query"]


def query(
    name: str,
    match: Any = None,
    match_type: str = "string",
    status: Any = None,
    status_type: str = "string",
    wait_for: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    The answer to a question has a text or a status. Other arguments are those of C{http.query}.

    match, match_type
        What to look for: a C{string}, or an expression (C{pcre}).
    status, status_type
        The status: a C{string}, one of a C{list}, or an expression (C{pcre}).
    wait_for
        Seconds to go on asking until there is an answer.
    """
    ret: dict[str, Any] = {"name": name, "result": None, "comment": "", "changes": {}, "data": {}}
    if match is None and status is None:
        ret["result"] = False
        ret["comment"] = " Either match text (match) or a status code (status) is required."
        return ret
    kwargs.setdefault("decode", False)
    kwargs["text"] = kwargs["status"] = True
    if __opts__["test"]:
        kwargs["test"] = True
    if wait_for:
        data = __salt__["http.wait_for_successful_query"](name, wait_for=wait_for, **kwargs)
    else:
        data = __salt__["http.query"](name, **kwargs)
    said: list[str] = []
    if match is not None:
        text = str(data.get("text", ""))
        if match_type in ("string", "pcre"):
            is_text = match_type == "string"
            fits = str(match) in text if is_text else bool(re.search(str(match), text))
            ret["result"] = fits
            what = "text" if is_text else "pattern"
            said.append(f'Match {what} "{match}" was {"" if fits else "not "}found.')
    if status is not None:
        ret["result"] = _judged(
            ret["result"], str(data.get("status", "")), status, status_type, said
        )
    ret["comment"] = " ".join(said)
    if __opts__["test"] is True:
        ret["result"] = None
        ret["comment"] += " (TEST MODE"
        if "test_url" in kwargs:
            ret["comment"] += f", TEST URL WAS: {kwargs['test_url']}"
        ret["comment"] += ")"
    ret["data"] = data
    return ret


def _judged(
    so_far: bool | None, found: str, wanted: Any, kind: str, said: list[str]
) -> bool | None:
    """
    The result by the status too, after the text has had its say.

    A list cannot make a good result bad, nor a bad one good: as in stock.
    """
    if kind == "list":
        fitting = [one for one in wanted if found == str(one)]
        said.extend(f"Status {one} was found." for one in fitting)
        if so_far is True or (so_far is None and fitting):
            return True
        said.append(f"Statuses {wanted} were not found.")
        return False
    if kind == "pcre":
        fits = bool(re.search(str(wanted), found))
        said.append(f'Status pattern "{wanted}" was {"" if fits else "not "}found.')
    elif kind == "string":
        fits = found == str(wanted)
        said.append(f"Status {wanted} was {'' if fits else 'not '}found.")
    else:
        return so_far
    if not fits:
        return False
    return True if so_far is None else so_far


def wait_for_successful_query(name: str, wait_for: float = 300, **kwargs: Any) -> dict[str, Any]:
    """
    As C{query}, again and again until it succeeds.

    wait_for
        Seconds after which to give up.
    request_interval
        Seconds between two questions.
    """
    end = time.time() + wait_for
    while True:
        problem: Exception | None = None
        ret: dict[str, Any] | None = None
        try:
            ret = query(name, **kwargs)
            if ret["result"]:
                return ret
        except Exception as error:
            # Whatever goes wrong may go well the next time.
            problem = error
        if time.time() > end:
            if ret is None and problem is not None:
                raise problem
            return ret or {}
        if "request_interval" in kwargs:
            log.debug("delaying query for %s seconds.", kwargs["request_interval"])
            time.sleep(kwargs["request_interval"])
