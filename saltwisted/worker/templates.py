"""
Rendering of a text or file by a module: C{file.managed}, C{cp.get_template}, C{cmd.run}.

A thin interface to the renderer, loaded when a template is first needed, because most jobs render
nothing. The variables of such a template are those that the caller names: there is no C{sls},
unless it is among them.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from saltwisted.worker.called import called
from saltwisted.worker.exceptions import SaltRenderError

ENGINES = ("cheetah", "genshi", "jinja", "mako", "py", "wempy")
"""Names that Salt knows; whether the library of one is here shows when it is used."""

_FACTS = ("salt", "grains", "opts", "pillar")
_renderers: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""One per loader: it holds the compiled templates of this job."""


def known(engine: Any) -> bool:
    """Whether this is the name of a template engine."""
    return engine in ENGINES


def written_renderer(loaders: Any, name: str, instead: bool) -> Any:
    """
    A renderer that somebody wrote; C{None}: there is none.

    @param instead: there is one of ours of this name. It is used unless a file has the name.
    """
    loader = loaders["renderers"]
    if instead and not loader._catalogue.is_of_site(name):
        return None
    return loader.get(f"{name}.render")


def engines(context: dict[str, Any]) -> dict[str, Any]:
    """Our renderers by name."""
    found: dict[str, Any] = _renderer(context).engines
    return found


def render_text(
    text: str,
    engine: str,
    context: dict[str, Any],
    path: str = "",
    own: dict[str, Any] | None = None,
) -> str:
    """
    Render a text with an engine.

    @param context: its variables: C{salt grains pillar opts saltenv} and what the caller adds.
    @param path: the local file that the text is from; needed for C{py}.
    @param own: variables that somebody wrote for this text; they outrank the others. C{py}
        finds them in its C{context}, and the others among its names.
    @raises SaltRenderError: the template is wrong; the text says where, in Salt's words.
    """
    from saltwisted.domain.render.errors import TemplateFailure
    from saltwisted.domain.render.names import sls_names
    from saltwisted.domain.render.pipeline import STRING, Job

    renderer = _renderer(context)
    own = own or {}
    variables = {**context, "salt": renderer.facts["salt"], **own}
    if "sls" in variables:
        for name, value in sls_names(None, str(variables["sls"])).items():
            variables.setdefault(name, value)
    try:
        with renderer.host.rendering():
            if engine == "jinja":
                return str(renderer.jinja.render(text, variables))
            step = renderer.engines.get(engine)
            if step is None:
                raise SaltRenderError(f"The template engine '{engine}' is not available here")
            seen = context if engine == "py" else variables
            names = {key: value for key, value in seen.items() if key not in _FACTS}
            job = Job(
                path or STRING,
                str(context.get("saltenv") or ""),
                str(context.get("sls") or ""),
                context={} if engine == "py" else names,
                extra={**names, "context": own} if engine == "py" else {},
            )
            made = step(text, job)
            return _text_of(made, path) if engine == "py" else str(made)
    except TemplateFailure as error:
        failure = SaltRenderError(str(error))
        failure.context = error.context
        failure.line_num = error.line
        reason = error.__cause__
    # As in Salt, the reason stands above it in a traceback, and nothing of ours between them.
    failure.__context__ = reason
    raise failure


def _text_of(made: Any, path: str) -> str:
    """
    What C{run()} of a template has returned, which becomes a file.

    @raises SaltRenderError: it is no text: C{None} of a forgotten C{return}, a number, a list.
    """
    if isinstance(made, str):
        return made
    if isinstance(made, (bytes, bytearray)):
        try:
            return made.decode()
        except UnicodeDecodeError as error:
            raise SaltRenderError(
                f"run() of the template {path} returned no text: {error}"
            ) from error
    kind = type(made).__name__
    raise SaltRenderError(f"run() of the template {path} has to return text, and returned {kind}")


def render_data(
    context: dict[str, Any],
    path: str = "",
    text: str = "",
    saltenv: str = "base",
    sls: str = "",
    pipe: str | None = None,
    extra: dict[str, Any] | None = None,
) -> Any:
    """
    The data that a file or text means, through its C{#!} line or the usual renderers.

    @param pipe: instead of the option C{renderer}.
    @param extra: further variables.
    @raises SaltRenderError: it cannot be rendered.
    """
    from saltwisted.domain.render.errors import TemplateFailure

    renderer = _renderer(context)
    try:
        if path:
            return renderer.file(path, saltenv, sls, default=pipe, **(extra or {}))
        return renderer.text(text, saltenv, sls, default=pipe, **(extra or {}))
    except TemplateFailure as error:
        raise SaltRenderError(str(error)) from error


def _renderer(context: dict[str, Any]) -> Any:
    """The renderer of this job, with the facts as they are now."""
    functions = context.get("salt") or {}
    loaders = getattr(functions, "loaders", None)
    # What a template names is bound by whitelist_modules, and what finds its files is not
    renderer = _renderers.get(loaders) if loaders is not None else None
    if renderer is None:
        from saltwisted.domain.render.pipeline import Renderer, RenderSettings
        from saltwisted.worker.renderhost import LocalHost

        opts = context.get("opts") or {}

        def find(path: str, saltenv: str) -> str | None:
            return functions["cp.cache_file"](f"salt://{path}", saltenv) or None

        renderer = Renderer(
            LocalHost(find, opts, lambda: functions, getattr(loaders, "adopt_salt", bool)),
            RenderSettings.of(opts),
            opts=opts,
            grains=context.get("grains") or {},
            pillar=context.get("pillar") or {},
            functions=called(functions),
            proxied=True,
            custom=partial(written_renderer, loaders) if loaders else None,
        )
        if loaders is not None:
            _renderers[loaders] = renderer
    for name in ("grains", "opts", "pillar"):
        if name in context:
            renderer.facts[name] = context[name]
    return renderer
