"""C{salt.utils.templates}: templates rendered by the engine's name."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, Any

from saltwisted.domain.render.names import sls_names
from saltwisted.worker import templates
from saltwisted.worker.exceptions import SaltRenderError


def _rendered(
    engine: str,
    tmplsrc: str | IO[Any],
    from_str: bool = False,
    to_str: bool = False,
    context: Mapping[str, Any] | None = None,
    tmplpath: str | None = None,
    **kws: Any,
) -> dict[str, Any]:
    """
    Render a file, or, with C{from_str}, a text.

    @param to_str: tell the text, and not the name of a new file that has it.
    @param kws: variables: C{salt grains pillar opts saltenv} and more; C{context} outranks them.
    """
    path = ""
    if not isinstance(tmplsrc, str):
        text = tmplsrc.read()
        tmplsrc.close()
    elif from_str:
        text = tmplsrc
    else:
        path = os.path.join(tmplpath or "", tmplsrc)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    try:
        data = templates.render_text(text, engine, {**kws, **(context or {})}, path)
    except SaltRenderError:
        raise
    except Exception:
        return {"result": False, "data": traceback.format_exc()}
    if to_str:
        return {"result": True, "data": data}
    with tempfile.NamedTemporaryFile("wb", delete=False, prefix="__salt.tmp.") as out:
        out.write(data.encode())
    return {"result": True, "data": out.name}


TEMPLATE_REGISTRY: dict[str, Callable[..., dict[str, Any]]] = {
    name: partial(_rendered, name) for name in templates.ENGINES
}
JINJA = TEMPLATE_REGISTRY["jinja"]
MAKO = TEMPLATE_REGISTRY["mako"]
PY = TEMPLATE_REGISTRY["py"]
TEMPLATE_DIRNAME = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")


def generate_sls_context(tmplpath: Any, sls: str) -> dict[str, Any]:
    """C{tplpath}, C{tplfile}, C{tpldir}, C{slspath} and the others of a template."""
    return dict(sls_names(str(tmplpath) if tmplpath else None, sls))
