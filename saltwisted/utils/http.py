"""
Questions to web servers, with the names of C{salt.utils.http}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.modules import _data, http
from saltwisted.modules._arguments import taken
from saltwisted.worker.exceptions import SaltInvocationError

_RENDERED = ("data_render", "header_render")


def query(
    url: str,
    method: str = "GET",
    params: Any = None,
    data: Any = None,
    opts: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Ask a web server; the arguments and what is told are those of the module's C{http.query}.

    @param opts: options such as C{http_request_timeout}; none by default.
    """
    if any(kwargs.get(name) for name in _RENDERED):
        raise SaltInvocationError(
            "salt.utils.http.query renders no files here; __salt__['http.query'] does"
        )
    given = {"method": method, "params": params, "data": data, **_data.clean_kwargs(**kwargs)}
    asked = http.Query(url=url, opts=dict(opts or {}), **taken(http.Query, given))
    return asked.run()
