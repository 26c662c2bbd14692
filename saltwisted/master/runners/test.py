"""
The C{test} runner: for trying out runners.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.config.secrets import shown
from saltwisted.master.runner_table import Run, Runner


async def arg(run: Run, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """
    What was given, as it arrived.

    CLI Example::

        salt-run test.arg foo bar=baz
    """
    return {"args": list(args), "kwargs": {k: v for k, v in kwargs.items() if k[:2] != "__"}}


async def raw_arg(run: Run, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """
    What was given, with everything that travels beside it.

    CLI Example::

        salt-run test.raw_arg foo __bar=baz
    """
    return {"args": list(args), "kwargs": kwargs}


async def sleep(run: Run, s_time: float = 10) -> bool:
    """
    Print the time, wait so many seconds, and return True.

    CLI Example::

        salt-run test.sleep s_time=5
    """
    await run.say(str(s_time))
    await _pause(run, float(s_time))
    return True


async def _pause(run: Run, seconds: float) -> None:
    done: Deferred[None] = Deferred()
    run.ctx.clock.callLater(seconds, done.callback, None)
    await done


async def stream(run: Run) -> bool:
    """
    Fire a stream of 99 progress events, a tenth of a second apart, then return True.

    CLI Example::

        salt-run test.stream
    """
    for number in range(1, 100):
        await run.progress({"message": f"Runner is {number}% done"}, "progress")
        await _pause(run, 0.1)
    return True


async def stdout_print(run: Run) -> str:
    """
    Print 'foo' and return 'bar'.

    CLI Example::

        salt-run test.stdout_print
    """
    await run.say("foo")
    return "bar"


async def metasyntactic(run: Run, locality: str = "us") -> list[str] | None:
    """
    Words that mean nothing.

    CLI Example::

        salt-run test.metasyntactic locality=uk
    """
    words = {
        "us": "foo bar baz qux quux quuz corge grault garply waldo fred plugh xyzzy thud",
        "uk": "wibble wobble wubble flob",
    }
    return words[locality].split() if locality in words else None


async def get_opts(run: Run) -> dict[str, Any]:
    """
    The master's configuration, without its secrets.

    CLI Example::

        salt-run test.get_opts
    """
    return shown(run.ctx.config.as_opts())


FUNCTIONS: dict[str, Runner] = {
    "arg": arg,
    "get_opts": get_opts,
    "metasyntactic": metasyntactic,
    "raw_arg": raw_arg,
    "sleep": sleep,
    "stdout_print": stdout_print,
    "stream": stream,
}
