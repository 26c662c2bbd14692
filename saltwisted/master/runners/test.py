"""
The C{test} runner: for trying out runners themselves.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.master.runner_table import Run, Runner


async def arg(run: Run, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """What was given, as it arrived."""
    return {"args": list(args), "kwargs": {k: v for k, v in kwargs.items() if k[:2] != "__"}}


async def raw_arg(run: Run, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """What was given, with everything that travels beside it."""
    return {"args": list(args), "kwargs": kwargs}


async def sleep(run: Run, s_time: float = 10) -> bool:
    """Wait."""
    done: Deferred[None] = Deferred()
    run.ctx.clock.callLater(float(s_time), done.callback, None)
    await done
    return True


async def stream(run: Run) -> bool:
    """A hundred progress events."""
    for number in range(1, 100):
        await run.progress({"message": f"Runner is {number}% done"}, "progress")
    return True


async def metasyntactic(run: Run, locality: str = "us") -> list[str] | bool:
    """Words that mean nothing."""
    words = {
        "us": "foo bar baz qux quux quuz corge grault garply waldo fred plugh xyzzy thud",
        "uk": "wibble wobble wubble flob",
    }
    return words[locality].split() if locality in words else False


async def get_opts(run: Run) -> dict[str, Any]:
    """The master's configuration."""
    return run.ctx.config.as_opts()


FUNCTIONS: dict[str, Runner] = {
    "arg": arg,
    "get_opts": get_opts,
    "metasyntactic": metasyntactic,
    "raw_arg": raw_arg,
    "sleep": sleep,
    "stream": stream,
}
