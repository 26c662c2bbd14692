"""
The C{file_tree} external pillar: directories as maps, files as values.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

from attrs import define

from saltwisted.domain.render.pipeline import Renderer, RenderSettings
from saltwisted.domain.render.tree import merge
from saltwisted.worker.pillar.host import PillarHost
from saltwisted.worker.renderhost import file_stamp
from saltwisted.worker.walk import walk

log = logging.getLogger(__name__)


def file_tree(sources: PillarHost) -> Callable[..., Any]:
    """Directories as maps and files as values: C{hosts/<id>} over C{nodegroups/<group>}."""

    def ext_pillar(
        minion_id: str,
        pillar: Any,
        root_dir: str | None = None,
        follow_dir_links: bool = False,
        debug: bool = False,
        keep_newline: Any = False,
        render_default: str | None = None,
        renderer_blacklist: Any = None,
        renderer_whitelist: Any = None,
        template: bool = False,
    ) -> Any:
        """
        C{root_dir}: absolute, or below the roots of the pillar environment;
        C{keep_newline}: true, or globs of files whose last newline stays;
        C{template}: render each file by the C{renderer_*} settings.
        """
        if not root_dir:
            log.error("file_tree: no root_dir specified")
            return {}
        roots = _roots(sources, root_dir)
        if roots is None:
            return {}
        renderer = None
        if template is True:
            settings = RenderSettings(
                pipe=render_default or "",
                blacklist=tuple(renderer_blacklist or ()),
                whitelist=tuple(renderer_whitelist or ()),
                jinja=sources.renderer.settings.jinja,
            )
            renderer = Renderer(
                sources.host,
                settings,
                opts=sources.renderer.facts["opts"],
                grains=sources.facts.grains,
                pillar=pillar,
                functions=sources.renderer.functions,
                cache=sources.renderer.cache,
            )
        tree = _Tree(sources, follow_dir_links, keep_newline, renderer)
        found: Any = {}
        for root in roots:
            found = merge(found, tree.of_minion(root), "recurse")
        return found

    return ext_pillar


def _roots(sources: PillarHost, root_dir: str) -> list[str] | None:
    """The directories that C{root_dir} means; C{None}, and a log, if it means none."""
    if os.path.isabs(root_dir):
        return [root_dir]
    if sources.pillarenv is None:
        log.error("file_tree: root_dir is relative but pillarenv is not set")
        return None
    above = (sources.opts.get("pillar_roots") or {}).get(sources.pillarenv)
    if above is None:
        log.error(
            "file_tree: root_dir is relative but no pillar_roots are specified  for pillarenv %s",
            sources.pillarenv,
        )
        return None
    roots = [os.path.normpath(os.path.join(path, root_dir)) for path in above]
    return [path for at, path in enumerate(roots) if at == 0 or path != roots[at - 1]]


@define
class _Tree:
    sources: PillarHost
    follow: bool
    keep_newline: Any
    renderer: Renderer | None

    def of_minion(self, root: str) -> Any:
        """One root: the groups in the order of the directory, then the host."""
        if not self._is_dir(root):
            log.error("file_tree: root_dir %s does not exist or is not a directory", root)
            return {}
        if not isinstance(self.keep_newline, (bool, list)):
            log.error(
                "file_tree: keep_newline must be either True/False or a list of file globs."
                " Skipping this ext_pillar for root_dir %s",
                root,
            )
            return {}
        found: Any = {}
        groups = os.path.join(root, "nodegroups")
        known = self.sources.opts.get("nodegroups") or {}
        if known and self._is_dir(groups):
            mine = self.sources.groups()
            for name in os.listdir(groups):
                if name in mine:
                    found = merge(found, self.read(os.path.join(groups, name)), "recurse")
        host = os.path.join(root, "hosts", self.sources.facts.id)
        if self._is_dir(host):
            found = merge(found, self.read(host), "recurse")
        elif os.path.exists(host):
            log.error("file_tree: %s exists, but is not a directory", host)
        return found

    def _is_dir(self, path: str) -> bool:
        self.sources.host.seen[path] = file_stamp(path)
        return os.path.isdir(path)

    def read(self, top: str) -> dict[str, Any]:
        """One directory as nested maps."""
        tree: dict[str, Any] = {}
        nodes = {os.path.normpath(top): tree}

        def failed(error: OSError) -> None:
            log.error("%s: %s", error.filename, error.strerror)

        for here, folders, files in walk(top, self.follow, onerror=failed):
            self.sources.host.seen[here] = file_stamp(here)
            node = nodes[os.path.normpath(here)]
            prefix = os.path.relpath(here, top)
            for name in folders:
                node[name] = nodes[os.path.normpath(os.path.join(here, name))] = {}
            for name in files:
                path = os.path.join(here, name)
                if self.sources.host.stamp(path) is None:
                    log.error("file_tree: %s: not a regular file", path)
                    continue
                try:
                    content = self.sources.host.read(path)
                except OSError as error:
                    log.error("file_tree: Error reading %s: %s", path, error.strerror)
                    continue
                if content.endswith(b"\n") and not self._keeps(os.path.join(prefix, name)):
                    content = content[:-1]
                node[name] = content
                if self.renderer is not None:
                    node[name] = self.renderer.text(content.decode())
        return tree

    def _keeps(self, path: str) -> bool:
        if isinstance(self.keep_newline, bool):
            return self.keep_newline
        return any(fnmatch(path, str(pattern)) for pattern in self.keep_newline)
