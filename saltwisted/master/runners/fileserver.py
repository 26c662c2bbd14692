"""
The C{fileserver} runner: what the master serves.
"""

from __future__ import annotations

import re
from typing import Any

from twisted.internet.defer import maybeDeferred

from saltwisted.domain.git.signing import sentence
from saltwisted.master.runner_table import Run, Runner
from saltwisted.words import listed


async def _chosen(run: Run, backend: Any) -> tuple[str, ...]:
    """
    The backends that a caller has chosen of those that serve, read as Salt reads it.

    Names in a list or separated by commas; with a minus before each, all but those. The
    caller hears of each name that there is not.
    """
    have = run.ctx.files.backends
    if not backend:
        return have
    names = backend if isinstance(backend, list) else str(backend).split(",")
    # As in Salt git is gitfs
    names = [re.sub("^(-?)git$", r"\1gitfs", str(name)) for name in names]
    for name in names:
        if name.lstrip("-") not in have:
            await run.complain(
                f"There is no file server backend {name.lstrip('-')!r}: only {listed(have)}"
            )
    if all(name.startswith("-") for name in names):
        return tuple(name for name in have if f"-{name}" not in names)
    return tuple(name for name in have if name in names)


async def envs(run: Run, backend: Any = None, sources: bool = False) -> Any:
    """
    Environments that are served; with C{sources} by backend.

    CLI Example::

        salt-run fileserver.envs
        salt-run fileserver.envs backend=roots sources=True
    """
    chosen, files = await _chosen(run, backend), run.ctx.files
    return {name: files.envs([name]) for name in chosen} if sources else files.envs(chosen)


async def file_list(run: Run, saltenv: str = "base", backend: Any = None) -> Any:
    """
    Files of an environment.

    CLI Example::

        salt-run fileserver.file_list
        salt-run fileserver.file_list saltenv=prod
    """
    chosen = await _chosen(run, backend)
    return await maybeDeferred(run.ctx.files.list_now, "files", saltenv, "", chosen)


async def symlink_list(run: Run, saltenv: str = "base", backend: Any = None) -> Any:
    """
    Links of an environment, with where they lead.

    CLI Example::

        salt-run fileserver.symlink_list
        salt-run fileserver.symlink_list saltenv=prod
    """
    chosen = await _chosen(run, backend)
    return await maybeDeferred(run.ctx.files.links_now, saltenv, "", chosen)


async def dir_list(run: Run, saltenv: str = "base", backend: Any = None) -> Any:
    """
    Directories of an environment.

    CLI Example::

        salt-run fileserver.dir_list
        salt-run fileserver.dir_list saltenv=prod
    """
    chosen = await _chosen(run, backend)
    return await maybeDeferred(run.ctx.files.list_now, "dirs", saltenv, "", chosen)


async def empty_dir_list(run: Run, saltenv: str = "base", backend: Any = None) -> Any:
    """
    Empty directories of an environment.

    CLI Example::

        salt-run fileserver.empty_dir_list
        salt-run fileserver.empty_dir_list saltenv=prod
    """
    chosen = await _chosen(run, backend)
    return await maybeDeferred(run.ctx.files.list_now, "empty_dirs", saltenv, "", chosen)


async def update(run: Run, backend: Any = None, remotes: Any = None, **kwargs: Any) -> Any:
    """
    Look again now, instead of when a change is noticed: git remotes are fetched.

    Where there are some, the answer has for each of them its refs with their commits, what has
    changed (the commit before and after), why it could not be fetched, and what is not served since
    nobody has signed it who may. The command ends with 1 where a remote could not be fetched.

    CLI Example::

        salt-run fileserver.update
        salt-run fileserver.update backend=roots
        salt-run fileserver.update backend=gitfs remotes=NAME,URL
    """
    chosen = await _chosen(run, backend)
    run.ctx.files.refresh(chosen)
    if "gitfs" not in chosen:
        return True
    names = remotes.split(",") if isinstance(remotes, str) else remotes
    found = await run.ctx.git.update(names)
    if names and not found:
        run.judge(False)
        await run.complain(f"There is no git remote of gitfs that is called {' or '.join(names)}")
    for name, told in found.items():
        if "error" in told:
            run.judge(False)
            await run.complain(f"{name} cannot be fetched: {told['error']}")
        for ref, refusal in told.get("refused", {}).items():
            await run.complain(f"{name}: {sentence(ref, refusal)}")
    return {"gitfs": found}


async def clear_cache(run: Run, backend: Any = None) -> str:
    """
    Forget what was listed and hashed; neither roots nor commits have a cache in Salt's sense.

    CLI Example::

        salt-run fileserver.clear_cache
        salt-run fileserver.clear_cache backend=roots
    """
    run.ctx.files.refresh(await _chosen(run, backend))
    return "No cache was cleared"


async def clear_lock(run: Run, backend: Any = None, remote: Any = None) -> str:
    """
    There are no locks, since none outlives its process: Salt's words for that.

    CLI Example::

        salt-run fileserver.clear_lock
    """
    await _chosen(run, backend)
    return "No locks were removed"


async def lock(run: Run, backend: Any = None, remote: Any = None) -> str:
    """
    There are no locks to be set: Salt's words for that.

    CLI Example::

        salt-run fileserver.lock
    """
    await _chosen(run, backend)
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
    chosen, files = await _chosen(run, backend), run.ctx.files
    files.refresh(chosen)
    found = {name: files.envs([name]) for name in chosen}
    if saltenv is not None:
        wanted = saltenv.split(",") if isinstance(saltenv, str) else list(saltenv)
        found = {name: [env for env in envs if env in wanted] for name, envs in found.items()}
    return {name: envs for name, envs in found.items() if envs}


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
