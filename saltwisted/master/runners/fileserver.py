"""
The C{fileserver} runner: what the master serves.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import maybeDeferred

from saltwisted.master.runner_table import Run, Runner

ROOTS = "roots"


async def _roots(run: Run, backend: Any) -> bool:
    """
    Whether a choice of backends has our only one in it, read as Salt reads it.

    Names in a list or separated by commas; with a minus before each, all but those. The
    caller hears of each name that there is not.
    """
    if not backend:
        return True
    names = backend if isinstance(backend, list) else str(backend).split(",")
    names = [str(name) for name in names]
    for name in names:
        if name.lstrip("-") != ROOTS:
            await run.complain(f"There is no file server backend {name.lstrip('-')!r}: only roots")
    if all(name.startswith("-") for name in names):
        return f"-{ROOTS}" not in names
    return ROOTS in names


async def envs(run: Run, backend: Any = None, sources: bool = False) -> Any:
    """
    Environments that are served; with C{sources} by backend.

    CLI Example::

        salt-run fileserver.envs
        salt-run fileserver.envs backend=roots sources=True
    """
    if not await _roots(run, backend):
        return {} if sources else []
    names = list(run.ctx.files.envs())
    return {ROOTS: names} if sources else names


async def file_list(run: Run, saltenv: str = "base", backend: Any = None) -> Any:
    """
    Files of an environment.

    CLI Example::

        salt-run fileserver.file_list
        salt-run fileserver.file_list saltenv=prod
    """
    if not await _roots(run, backend):
        return []
    return await maybeDeferred(run.ctx.files.list_now, "files", saltenv, "")


async def symlink_list(run: Run, saltenv: str = "base", backend: Any = None) -> Any:
    """
    Links of an environment, with where they lead.

    CLI Example::

        salt-run fileserver.symlink_list
        salt-run fileserver.symlink_list saltenv=prod
    """
    if not await _roots(run, backend):
        return {}
    return await maybeDeferred(run.ctx.files.links_now, saltenv, "")


async def dir_list(run: Run, saltenv: str = "base", backend: Any = None) -> Any:
    """
    Directories of an environment.

    CLI Example::

        salt-run fileserver.dir_list
        salt-run fileserver.dir_list saltenv=prod
    """
    if not await _roots(run, backend):
        return []
    return await maybeDeferred(run.ctx.files.list_now, "dirs", saltenv, "")


async def empty_dir_list(run: Run, saltenv: str = "base", backend: Any = None) -> Any:
    """
    Empty directories of an environment.

    CLI Example::

        salt-run fileserver.empty_dir_list
        salt-run fileserver.empty_dir_list saltenv=prod
    """
    if not await _roots(run, backend):
        return []
    return await maybeDeferred(run.ctx.files.list_now, "empty_dirs", saltenv, "")


async def update(run: Run, backend: Any = None, **kwargs: Any) -> bool:
    """
    Look at the roots again now, instead of when their change is noticed.

    CLI Example::

        salt-run fileserver.update
        salt-run fileserver.update backend=roots
    """
    if await _roots(run, backend):
        run.ctx.files.refresh()
    return True


async def clear_cache(run: Run, backend: Any = None) -> str:
    """
    Forget what was listed and hashed; roots have no cache in Salt's sense.

    CLI Example::

        salt-run fileserver.clear_cache
        salt-run fileserver.clear_cache backend=roots
    """
    if await _roots(run, backend):
        run.ctx.files.refresh()
    return "No cache was cleared"


async def clear_lock(run: Run, backend: Any = None, remote: Any = None) -> str:
    """
    Roots have no locks: Salt's words for that.

    CLI Example::

        salt-run fileserver.clear_lock
    """
    await _roots(run, backend)
    return "No locks were removed"


async def lock(run: Run, backend: Any = None, remote: Any = None) -> str:
    """
    Roots have no locks: Salt's words for that.

    CLI Example::

        salt-run fileserver.lock
    """
    await _roots(run, backend)
    return "No locks were set"


async def clear_file_list_cache(
    run: Run, saltenv: Any = None, backend: Any = None
) -> dict[str, Any]:
    """
    Forget file lists; the answer names the environments by backend.

    CLI Example::

        salt-run fileserver.clear_file_list_cache
        salt-run fileserver.clear_file_list_cache saltenv=base
    """
    if not await _roots(run, backend):
        return {}
    run.ctx.files.refresh()
    names = list(run.ctx.files.envs())
    if saltenv is not None:
        wanted = saltenv.split(",") if isinstance(saltenv, str) else list(saltenv)
        names = [n for n in names if n in wanted]
    return {ROOTS: names} if names else {}


FUNCTIONS: dict[str, Runner] = {
    "clear_cache": clear_cache,
    "clear_file_list_cache": clear_file_list_cache,
    "clear_lock": clear_lock,
    "dir_list": dir_list,
    "empty_dir_list": empty_dir_list,
    "envs": envs,
    "file_list": file_list,
    "lock": lock,
    "symlink_list": symlink_list,
    "update": update,
}
