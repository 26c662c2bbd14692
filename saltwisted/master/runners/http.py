"""
The C{http} runner: requests to web servers, by the functions of the module C{http}.

They may take long and block, so each runs in a process of its own, as in C{salt.cmd}.
"""

from __future__ import annotations

from typing import Any

from saltwisted.errors import RemoteError
from saltwisted.master.runner_table import Run, Runner


async def _call(run: Run, fun: str, arg: list[Any], kwarg: dict[str, Any]) -> Any:
    if run.ctx.execution is None:
        raise RemoteError("SaltRunnerError", "this master executes no functions itself")
    return await run.ctx.execution.execute(run, fun, arg, kwarg, False)


async def query(run: Run, url: str, output: Any = True, **kwargs: Any) -> Any:
    """
    Ask a web server, and give what it answered.

    method, params, data, header_dict, username, password, decode, ...
        As for the execution function C{http.query}.

    CLI Example::

        salt-run http.query http://somelink.com/
        salt-run http.query http://somelink.com/ method=POST data='<xml>somecontent</xml>'
    """
    return await _call(run, "http.query", [url], {"node": "master", **kwargs})


async def update_ca_bundle(
    run: Run, target: Any = None, source: Any = None, merge_files: Any = None
) -> Any:
    """
    Fetch a bundle of certificates of authorities.

    CLI Example::

        salt-run http.update_ca_bundle target=/path/to/cacerts.pem
    """
    given = {"target": target, "source": source, "merge_files": merge_files}
    return await _call(run, "http.update_ca_bundle", [], given)


FUNCTIONS: dict[str, Runner] = {"query": query, "update_ca_bundle": update_ca_bundle}
