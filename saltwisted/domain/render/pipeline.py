"""
From a file to data: the C{#!} line chooses the renderers, and each takes the result of the last.

L{Renderer} is what pillar and state compilers use. It is created per compilation, with the facts of
one minion; the caches are in a L{RenderCache} that outlives it. If no renderer of a name exists,
nothing is rendered and a log line says so, as in Salt.
"""

from __future__ import annotations

import json
import posixpath
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import IOBase, StringIO
from types import ModuleType
from typing import Any

import msgpack
from attrs import field, frozen

from saltwisted.domain.render import mako, pyobjects, secrets, stateconf
from saltwisted.domain.render.cache import RenderCache
from saltwisted.domain.render.errors import LARGEST, TemplateFailure, too_large, unforeseen
from saltwisted.domain.render.functions import AliasedLoader
from saltwisted.domain.render.host import RenderHost
from saltwisted.domain.render.jinja import JinjaEngine, JinjaOptions
from saltwisted.domain.render.names import sls_names
from saltwisted.domain.render.yaml import load_sls
from saltwisted.domain.render.yamlex import load_yamlex

STRING = ":string:"
"""The path that says: the text itself was given."""

_PROXY, _OPTIONS = "salt.utils.optsdict.DictProxy", "salt.utils.optsdict.OptsDict"
"""What Salt calls the maps of facts in its SLS files; Jinja's errors say it."""

_OLD_NAMES = {
    f"{data}_{template}": f"{template}|{data}"
    for data in ("yaml", "json", "yamlex")
    for template in ("jinja", "mako")
}
"""Names of pipes from before there were pipes."""


@frozen
class RenderSettings:
    """
    What the configuration says about rendering.

    @ivar pipe: C{renderer}, for files without a C{#!} line.
    """

    pipe: str = "jinja|yaml"
    blacklist: Sequence[str] = ()
    whitelist: Sequence[str] = ()
    jinja: JinjaOptions = field(factory=JinjaOptions)

    @classmethod
    def of(cls, opts: Mapping[str, Any]) -> RenderSettings:
        """From Salt's option names."""
        return cls(
            pipe=str(opts.get("renderer") or "jinja|yaml"),
            blacklist=tuple(opts.get("renderer_blacklist") or ()),
            whitelist=tuple(opts.get("renderer_whitelist") or ()),
            jinja=JinjaOptions.of(opts),
        )


@frozen
class Job:
    """
    One renderer's turn.

    @ivar argument: the text after its name.
    @ivar path: the local file, or L{STRING}.
    @ivar extra: further variables (C{defaults} of an include, ...).
    """

    path: str
    saltenv: str
    sls: str
    argument: str = ""
    context: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(factory=dict)


class Renderer:
    """
    Renders files for one minion.

    @param opts: what templates see as C{opts}; here it is only one more fact.
    @param functions: what templates see as C{salt}.
    @param proxied: messages about undefined keys call grains and pillar what Salt calls them in
        its SLS files, by the class of a proxy around them.
    @param custom: finds a site's own renderers (C{_renderers}) by name: functions as in Salt, which
        take the data, C{saltenv}, C{sls} and keywords. It is told whether there is one of ours,
        which such a renderer replaces.
    @ivar facts: C{grains}, C{pillar}, C{opts}, C{salt}; the pillar may be replaced between
        renderings.
    """

    def __init__(
        self,
        host: RenderHost,
        settings: RenderSettings,
        *,
        opts: Mapping[str, Any],
        grains: Mapping[str, Any],
        pillar: Mapping[str, Any],
        functions: Mapping[str, Any],
        cache: RenderCache | None = None,
        extra: Mapping[str, Any] | None = None,
        proxied: bool = False,
        custom: Callable[[str, bool], Any] | None = None,
    ) -> None:
        self.host = host
        self.settings = settings
        self.cache = RenderCache() if cache is None else cache
        self.functions = functions
        self.jinja = JinjaEngine(host, settings.jinja, self.cache)
        self.facts: dict[str, Any] = {
            "salt": AliasedLoader(functions),
            "grains": grains,
            "opts": opts,
            "pillar": pillar,
            "proxy": {},
            **(extra or {}),
        }
        if proxied:
            facts = self.facts
            self.jinja.shown_as = lambda value: (
                _PROXY
                if value is facts["pillar"] or value is facts["grains"]
                else _OPTIONS * (value is facts["opts"])
            )
        self._custom = custom
        self._stateconfs = stateconf.Known()
        self.engines: dict[str, Callable[[Any, Job], Any]] = {
            "yaml": self._yaml,
            "jinja": self._jinja,
            "json": self._json,
            "py": self._py,
            "gpg": self._gpg,
            "nacl": self._nacl,
            "yamlex": self._yamlex,
            "mako": self._mako,
            "msgpack": self._msgpack,
            "pyobjects": self._pyobjects,
            "stateconf": self._stateconf,
            "toml": self._toml,
        }
        for name in ("json5", "hjson"):
            library = host.library(name)
            if library is not None:
                self.engines[name] = partial(self._like_json, library)

    # -- the pipe --------------------------------------------------------------

    def file(
        self,
        path: str,
        saltenv: str = "base",
        sls: str = "",
        context: Mapping[str, Any] | None = None,
        default: str | None = None,
        **extra: Any,
    ) -> Any:
        """
        The data that a local file means; an absent or empty file means C{{}}.

        @param default: the pipe for a file without a C{#!} line; C{renderer} otherwise.
        @raises TemplateFailure: it cannot be rendered.
        @raises OSError: it cannot be read.
        """
        stamp = self.host.stamp(path)
        if stamp is None:
            self.host.log("error", f"Template does not exist: {path}")
            return {}
        key = (path, stamp)
        text = self.cache.sources.get(key)
        if text is None:
            raw = self.host.read(path)
            if len(raw) > LARGEST:
                raise too_large(len(raw), sls)
            # Packed data is not text; every other file has to be.
            errors = "surrogateescape" if raw.startswith(b"#!msgpack") else "strict"
            text = raw.decode(errors=errors)
            self.cache.sources.put(key, text, len(text) + 200)
        if not text:
            return {}
        if not text.strip():
            self.host.log("error", f"Template is nothing but whitespace: {path}")
            return {}
        job = Job(path, saltenv, sls, context=context, extra=extra)
        return self._pipe(text, text.split("\n", 1)[0], job, default)

    def text(
        self,
        text: str,
        saltenv: str = "base",
        sls: str = "",
        context: Mapping[str, Any] | None = None,
        default: str | None = None,
        **extra: Any,
    ) -> Any:
        """As L{file}, for a text that is in no file."""
        words = text.split(maxsplit=1)
        if not words:
            return {}
        job = Job(STRING, saltenv, sls, context=context, extra=extra)
        return self._pipe(text, words[0], job, default)

    def _pipe(self, text: str, first: str, job: Job, default: str | None) -> Any:
        named = first.startswith("#!") and not first.startswith("#!/")
        pipe = first.strip()[2:] if named else default or self.settings.pipe
        data: Any = text
        steps = self.steps(pipe)
        if not steps:
            return {}
        with self.host.rendering():
            for engine, argument in steps:
                if isinstance(data, str) and _is_written(engine):
                    # Text is a stream in Salt, that of the file as well as what a template gave
                    data = StringIO(data)
                elif isinstance(data, IOBase) and data.seekable():
                    # Who made it, or looked at it, may have left it at its end
                    data.seek(0)
                turn = Job(job.path, job.saltenv, job.sls, argument, job.context, job.extra)
                data = engine(data, turn)
                if isinstance(data, str) and len(data) > LARGEST:
                    raise too_large(len(data), job.sls)
        if "\r\n" in text and isinstance(data, str) and "\r\n" not in data:
            data = data.replace("\n", "\r\n")
        return data

    def steps(self, pipe: str) -> list[tuple[Callable[[Any, Job], Any], str]]:
        """
        The renderers of C{jinja|yaml} with their arguments.

        Disallowed ones are left out; if one is unknown, there is no step at all.
        """
        words = [word.strip() for word in _OLD_NAMES.get(pipe, pipe).split("|")]
        steps = []
        for word in words:
            name, _, argument = word.partition(" ")
            settings = self.settings
            if (settings.whitelist and name not in settings.whitelist) or (
                settings.blacklist and name in settings.blacklist
            ):
                self.host.log(
                    "warning",
                    f'The renderer "{name}" is disallowed by configuration and will be skipped.',
                )
                continue
            engine = self._engine(name)
            if engine is None:
                self.host.log("error", f'The renderer "{pipe}" is not available')
                return []
            steps.append((engine, argument.strip()))
        return steps

    def _engine(self, name: str) -> Callable[[Any, Job], Any] | None:
        """The renderer of a name: one that somebody wrote, or ours."""
        engine = self.engines.get(name)
        written = self._custom(name, engine is not None) if self._custom is not None else None
        return partial(self._written, written) if written else engine

    # -- the renderers -----------------------------------------------------------

    def variables(self, job: Job) -> dict[str, Any]:
        """Everything that a template sees, besides the globals of its language."""
        found = {
            **self.facts,
            "saltenv": job.saltenv,
            "sls": job.sls,
            "renderers": self.engines,
            **job.extra,
            **(job.context or {}),
        }
        for name, value in sls_names(job.path, str(found["sls"])).items():
            found.setdefault(name, value)
        return found

    def _jinja(self, data: Any, job: Job) -> str:
        if job.argument not in ("", "-s"):
            raise TemplateFailure(f"Unknown renderer option: {job.argument}")
        return self.jinja.render(_as_text(data), self.variables(job), job.path)

    def _yaml(self, data: Any, job: Job) -> Any:
        return self.cache.parsed("yaml", _as_text(data), load_sls)

    def _yamlex(self, data: Any, job: Job) -> Any:
        return load_yamlex(_as_text(data))

    def _json(self, data: Any, job: Job) -> Any:
        text = _without_first_line(_as_text(data))
        if not text.strip():
            return {}
        try:
            return json.loads(text)
        except ValueError as error:
            raise unforeseen(TemplateFailure(str(error), getattr(error, "lineno", None))) from error

    def _like_json(self, library: Any, data: Any, job: Job) -> Any:
        """C{json5} and C{hjson}, where their libraries are there."""
        text = _without_first_line(_as_text(data))
        try:
            return library.loads(text) if text.strip() else {}
        except Exception as error:
            raise TemplateFailure(str(error)) from error

    def _msgpack(self, data: Any, job: Job) -> Any:
        raw = data if isinstance(data, bytes) else _as_text(data).encode("utf-8", "surrogateescape")
        if raw.startswith(b"#!"):
            raw = raw[raw.find(b"\n") + 1 :]
        if not raw.strip():
            return {}
        try:
            return msgpack.unpackb(raw, raw=False, strict_map_key=False)
        except (ValueError, msgpack.UnpackException) as error:
            raise TemplateFailure(str(error) or type(error).__name__) from error

    def _toml(self, data: Any, job: Job) -> Any:
        library = self.host.library("tomllib")
        if library is None:
            raise TemplateFailure("The 'toml' library is missing")
        try:
            return library.loads(_without_first_line(_as_text(data)))
        except ValueError as error:
            raise TemplateFailure(str(error)) from error

    def _gpg(self, data: Any, job: Job) -> Any:
        return secrets.gpg(data, self.host, bool(job.extra.get("translate_newlines")))

    def _nacl(self, data: Any, job: Job) -> Any:
        return secrets.nacl(data, lambda *a, **k: self.functions["nacl.dec"](*a, **k))

    def _py(self, data: Any, job: Job) -> Any:
        """
        A Python file whose C{run()} gives the data; Salt's names are its globals.

        It is the file that runs, whatever stood before it in the pipe.
        """
        if self.host.stamp(job.path) is None:
            raise TemplateFailure(f"Template {job.path} is not a file!")
        self.host.prepare_python()
        name = posixpath.basename(job.path).split(".")[0]
        module = ModuleType(name)
        space = module.__dict__
        facts = {**self.facts, "salt": self.functions}
        space["__file__"] = job.path
        for fact in ("salt", "grains", "opts", "pillar"):
            space[fact] = space[f"__{fact}__"] = facts[fact]
        space.update(
            {
                "__env__": job.saltenv,
                "saltenv": job.saltenv,
                "__sls__": job.sls,
                "sls": job.sls,
                "renderers": self.engines,
                "string": True,
                **job.extra,
            }
        )
        if job.context:
            space["context"] = job.context
        try:
            exec(compile(self.jinja.source(job.path), job.path, "exec"), space)  # noqa: S102 - its purpose
        except SyntaxError as error:
            where = f"({posixpath.basename(job.path)}, line {error.lineno})"
            failure = TemplateFailure(f"{error.msg} {where}", error.lineno, sls=job.sls)
            raise unforeseen(failure) from error
        except Exception as error:
            failure = TemplateFailure(str(error), sls=job.sls, quotable=False)
            raise unforeseen(failure) from error
        try:
            run = space.get("run")
            if run is None:
                raise AttributeError(f"module '{name}' has no attribute 'run'")
            return run()
        except Exception as error:
            raise self._python_failure(error, job) from error

    def _pyobjects(self, data: Any, job: Job) -> Any:
        self.host.prepare_python()
        values = {f"__{name}__": self.facts[name] for name in ("pillar", "grains", "opts")}
        values.update(__sls__=job.sls, **(job.context or {}))
        try:
            return pyobjects.run(
                _as_text(data), job.path, job.saltenv, self.host, self.functions, values
            )
        except Exception as error:
            text = str(error)
            if isinstance(error, SyntaxError):
                text = f"{error.msg} (<string>, line {error.lineno})"
            failure = TemplateFailure(text, sls=job.sls, quotable=False)
            failure.line = _last_line(error, job.path)
            raise unforeseen(failure) from error

    def _written(self, function: Callable[..., Any], data: Any, job: Job) -> Any:
        """A renderer out of C{_renderers}, called as Salt calls it."""
        keywords: dict[str, Any] = {"renderers": self.engines, "tmplpath": job.path, **job.extra}
        if job.context:
            keywords["context"] = job.context
        if job.argument:
            keywords["argline"] = job.argument
        try:
            return function(data, job.saltenv, job.sls, **keywords)
        except TemplateFailure:
            raise
        except SystemExit as error:
            path = function.__code__.co_filename
            failure = TemplateFailure(
                f"The renderer in {path} wanted to end the process: SystemExit: {error}",
                sls=job.sls,
                quotable=False,
            )
            raise failure from error
        except Exception as error:
            failure = TemplateFailure(str(error), sls=job.sls, quotable=False)
            raise unforeseen(failure) from error

    def _stateconf(self, data: Any, job: Job) -> Any:
        def engine(name: str, argument: str) -> stateconf.Step | None:
            found = self._engine(name)
            if found is None:
                return None
            step = found

            def rendered(data: Any, values: Mapping[str, Any]) -> Any:
                context = {**values, **(job.context or {})}
                turn = Job(job.path, job.saltenv, job.sls, argument, context, job.extra)
                return step(StringIO(data) if _is_written(step) else data, turn)

            return rendered

        file = stateconf.StateConf(self._stateconfs, job.sls, job.saltenv, engine)
        return file.render(data, job.argument)

    def _mako(self, data: Any, job: Job) -> str:
        return mako.render(
            _as_text(data), self.host, job.saltenv, job.sls.replace(".", "/"), self.variables(job)
        )

    def _python_failure(self, error: Exception, job: Job) -> TemplateFailure:
        trace = "".join(traceback.format_exception(error))
        failure = TemplateFailure(trace, sls=job.sls, quotable=False)
        failure.line = _last_line(error, job.path)
        return failure


def _is_written(engine: Callable[..., Any]) -> bool:
    return isinstance(engine, partial) and getattr(engine.func, "__func__", None) is (
        Renderer._written
    )


def _last_line(error: Exception, path: str) -> int | None:
    """The innermost line of a file on the way of an exception."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == path else None
    where = error.__traceback__
    while where is not None:
        if where.tb_frame.f_code.co_filename == path:
            line = where.tb_lineno
        where = where.tb_next
    return line


def _as_text(data: Any) -> str:
    if isinstance(data, str):
        return data
    if isinstance(data, bytes):
        return data.decode()
    try:
        return str(data.read())
    except AttributeError as error:
        raise unforeseen(TemplateFailure(str(error))) from error


def _without_first_line(text: str) -> str:
    return text[text.find("\n") + 1 :] if text.startswith("#!") else text
