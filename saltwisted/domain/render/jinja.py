"""
Jinja as Salt sets it up: a sandbox, strict undefineds, Salt's tags, filters and loader.

An environment is made once per set of options; each rendering works in an
overlay of it with its own globals, and compiled templates are taken from a
L{RenderCache}. Failures become L{TemplateFailure} with Salt's wording.
"""

from __future__ import annotations

import json
import posixpath
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping
from types import CodeType, TracebackType
from typing import Any

import jinja2
import jinja2.defaults
import jinja2.sandbox
from attrs import frozen
from jinja2 import BaseLoader, Environment, Template, TemplateNotFound, TemplateRuntimeError
from jinja2.runtime import Context
from jinja2.utils import object_type_repr

from saltwisted.domain.render.cache import RenderCache
from saltwisted.domain.render.errors import (
    LARGEST,
    MARKER,
    FilterError,
    TemplateFailure,
    excerpt,
    too_large,
)
from saltwisted.domain.render.filters import FILTERS, GLOBALS, TESTS
from saltwisted.domain.render.host import RenderHost
from saltwisted.domain.render.serialize import SaltExtension

_TEMPLATE_FRAMES = ("top-level template code", "template", "<module>")


@frozen
class JinjaOptions:
    """
    What the configuration says about Jinja.

    @ivar plain: C{jinja_env}, for files that are not an SLS, as (name, value) pairs.
    @ivar sls: C{jinja_sls_env}.
    @ivar allow_undefined: undefined variables print as nothing.
    """

    plain: tuple[tuple[str, Any], ...] = ()
    sls: tuple[tuple[str, Any], ...] = ()
    allow_undefined: bool = False

    @classmethod
    def of(cls, opts: Mapping[str, Any]) -> JinjaOptions:
        """From Salt's option names; C{jinja_trim_blocks} and its like act on both."""
        both = {}
        if opts.get("jinja_trim_blocks"):
            both["trim_blocks"] = True
        if opts.get("jinja_lstrip_blocks"):
            both["lstrip_blocks"] = True

        def chosen(name: str) -> tuple[tuple[str, Any], ...]:
            given = opts.get(name)
            merged = {**(given if isinstance(given, dict) else {}), **both}
            return tuple(_known(merged).items())

        return cls(
            plain=chosen("jinja_env"),
            sls=chosen("jinja_sls_env"),
            allow_undefined=bool(opts.get("allow_undefined")),
        )


HEADER = "#jinja2:"


@frozen
class Flavour:
    """
    What chooses the options of an environment.

    @ivar sls: the template is an SLS.
    @ivar own: the options in the template's header, a JSON map as it is written there.
    """

    sls: bool
    own: str = ""

    @classmethod
    def of(cls, text: str, sls: bool, tell: Callable[[str, str], None]) -> tuple[Flavour, str]:
        """
        Read the header C{#jinja2: {...}}: the first line, or the second below C{#!renderer}.

        @param tell: gets a level and a message if the header is no JSON map.
        @return: the flavour, and the text without that line. A line that is no header stays.
        """
        place = 0
        if text.startswith("#!") and not text.startswith("#!/"):
            place = text.find("\n") + 1 or len(text)
        if not text.startswith(HEADER, place):
            return cls(sls), text
        end = text.find("\n", place) + 1 or len(text)
        own = text[place + len(HEADER) : end].strip()
        if not own:
            return cls(sls), text
        try:
            options = json.loads(own)
        except (ValueError, RecursionError):
            options = None
        if not isinstance(options, dict):
            tell("warning", f"Ignoring a '{HEADER}' header that is not a JSON object")
            return cls(sls), text
        return cls(sls, own), text[:place] + text[end:]

    def options(self) -> dict[str, Any]:
        """Those of the header that Jinja knows, by name."""
        return _known(json.loads(self.own)) if self.own else {}


def _known(options: Mapping[Any, Any]) -> dict[str, Any]:
    """Options of an environment by their names, without what Jinja does not know."""
    lower = {str(name).lower(): value for name, value in options.items()}
    return {k: v for k, v in lower.items() if hasattr(jinja2.defaults, k.upper())}


class HostLoader(BaseLoader):
    """
    Finds imported templates: C{salt://} paths, or C{./x} and C{../x} relative to the importer.

    The template that is being rendered says where it is by C{tpldir} in the environment's globals;
    each import updates these, as in stock.
    """

    def __init__(self, engine: JinjaEngine, saltenv: str, flavour: Flavour) -> None:
        self._engine = engine
        self._saltenv = saltenv
        self._flavour = flavour

    def load(
        self,
        environment: Environment,
        name: str,
        globals: MutableMapping[str, Any] | None = None,
    ) -> Template:
        """Called by Jinja for C{import}, C{include} and C{extends}."""
        path = self._locate(environment, name)
        code = self._engine.code(environment, self._flavour, name, path)
        return environment.template_class.from_code(
            environment, code, {} if globals is None else globals
        )

    def get_source(
        self, environment: Environment, template: str
    ) -> tuple[str, str, Callable[[], bool]]:
        """Called by Jinja tools that want the text."""
        path = self._locate(environment, template)
        return self._engine.source(path), path, lambda: True

    def _locate(self, environment: Environment, name: str) -> str:
        known = environment.globals
        relative = name.split("/", 1)[0] in (".", "..")
        wanted = name
        if relative:
            if "tpldir" not in known:
                raise TemplateNotFound(name)
            base = str(known["tpldir"])
            wanted = posixpath.normpath(posixpath.join(base, name))
            if wanted.split("/", 1)[0] == "..":
                raise TemplateNotFound(name)
        path = self._engine.host.find(wanted, self._saltenv)
        directory = posixpath.dirname(wanted)
        if relative:
            known["tplfile"] = name
            directory = str(known.get("tpldir", directory))
        else:
            known["tplfile"] = wanted
        known["tpldir"] = directory or "."
        known["tpldot"] = directory.replace("/", ".")
        if path is None:
            raise TemplateNotFound(name)
        return path


class BesideLoader(HostLoader):
    """Imports of a template outside any environment: files in its own directory."""

    def __init__(self, engine: JinjaEngine, directory: str, flavour: Flavour) -> None:
        super().__init__(engine, "", flavour)
        self._directory = directory

    def _locate(self, environment: Environment, name: str) -> str:
        parts = name.split("/")
        path = posixpath.join(self._directory, *parts)
        if ".." in parts or self._engine.host.stamp(path) is None:
            raise TemplateNotFound(name)
        return path


class JinjaEngine:
    """
    Renders texts.

    @ivar host: files and the machine.
    @ivar shown_as: the name of the class that Salt uses for a map, for messages.
    """

    def __init__(self, host: RenderHost, options: JinjaOptions, cache: RenderCache) -> None:
        self.host = host
        self._options = options
        self._cache = cache
        self._bases: dict[Flavour, Environment] = {}
        self.shown_as: Callable[[object], str] = lambda value: ""

    def render(self, text: str, context: Mapping[str, Any], tplpath: str | None = None) -> str:
        """
        The text that a template makes.

        @param context: its variables; C{sls} and C{saltenv} among them choose the options
            and the loader.
        @raises TemplateFailure: as stock words it.
        """
        sls = context.get("sls") or ""
        saltenv = context.get("saltenv")
        ended = text.endswith("\n")
        flavour, text = Flavour.of(text, bool(sls), self.host.log)
        environment = self._environment(flavour)
        environment.globals.update(context)
        loader: BaseLoader | None = None
        if saltenv:
            loader = HostLoader(self, str(saltenv), flavour)
        elif tplpath:
            loader = BesideLoader(self, posixpath.dirname(tplpath), flavour)
        environment.loader = loader
        try:
            code = self._text_code(environment, flavour, text)
            template = environment.template_class.from_code(
                environment, code, environment.make_globals(None)
            )
            output = template.render(context)
        except TemplateFailure:
            raise
        except Exception as error:
            raise self._failure(error, text, str(sls)) from error
        # Jinja drops the last newline of a template; Salt puts it back.
        return output + "\n" if ended else output

    def source(self, path: str) -> str:
        """A file's text, remembered while its stamp stays the same."""
        stamp = self.host.stamp(path)
        if stamp is None:
            raise TemplateNotFound(path)
        key = (path, stamp)
        text = self._cache.sources.get(key)
        if text is None:
            raw = self.host.read(path)
            if len(raw) > LARGEST:
                raise TemplateRuntimeError(f"{path}: {too_large(len(raw))}")
            text = raw.decode()
            self._cache.sources.put(key, text, len(text) + 200)
        return str(text)

    def mistake(self, text: str) -> dict[str, Any] | None:
        """What is wrong with the syntax of an SLS, with its line; nothing is rendered."""
        if text.startswith("#!") and "jinja" not in text.split("\n", 1)[0]:
            return None
        flavour, text = Flavour.of(text, True, lambda level, message: None)
        above = 1 if flavour.own else 0
        try:
            self._environment(flavour).parse(text)
        except TemplateFailure as error:
            return {"line": above, "problem": error.problem}
        except jinja2.TemplateSyntaxError as error:
            line = error.lineno + above
            return {"line": line, "problem": f"Jinja syntax error: {error.message}"}
        return None

    def code(self, environment: Environment, flavour: Flavour, name: str, path: str) -> CodeType:
        """The compiled form of a template file."""
        key = (self._options, flavour, name, path, self.host.stamp(path))
        found = self._cache.code.get(key)
        if found is None:
            text = self.source(path)
            found = environment.compile(text, name, path)
            self._cache.code.put(key, found, len(text) + 500)
        assert isinstance(found, CodeType)
        return found

    def _text_code(self, environment: Environment, flavour: Flavour, text: str) -> CodeType:
        key = (self._options, flavour, text)
        found = self._cache.code.get(key)
        if found is None:
            found = environment.compile(text)
            self._cache.code.put(key, found, len(text) + 500)
        assert isinstance(found, CodeType)
        return found

    def _environment(self, flavour: Flavour) -> Environment:
        """
        An overlay with globals of its own.

        @raises TemplateFailure: Jinja does not take the options of the template's header.
        """
        base = self._bases.get(flavour)
        if base is None:
            try:
                base = self._bases[flavour] = self._base(flavour)
            except Exception as error:
                if not flavour.own:
                    raise
                raise TemplateFailure(f"Jinja error: {HEADER} {error}") from error
        overlay = base.overlay()
        overlay.globals = dict(base.globals)
        return overlay

    def _base(self, flavour: Flavour) -> Environment:
        chosen = dict(self._options.sls if flavour.sls else self._options.plain)
        chosen.update(flavour.options())
        strict = _strict(self)
        environment = jinja2.sandbox.SandboxedEnvironment(
            undefined=jinja2.Undefined if self._options.allow_undefined else strict,
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols", SaltExtension],
            **chosen,
        )
        salt_tags = environment.extensions[SaltExtension.identifier]
        assert isinstance(salt_tags, SaltExtension)
        salt_tags.clock = self.host.now
        salt_tags.tell = self.host.log
        native_indent = environment.filters["indent"]
        environment.filters.update(FILTERS)
        for name, function in self.host.filters.items():
            environment.filters[name] = _unfolded(function)
        environment.filters["indent"] = native_indent
        environment.tests.update(TESTS)
        environment.globals.update(GLOBALS)
        environment.globals["odict"] = OrderedDict
        environment.globals["show_full_context"] = show_full_context
        environment.globals["ifelse"] = _ifelse
        return environment

    def _failure(self, error: Exception, text: str, sls: str) -> TemplateFailure:
        """Salt's words for an exception that left a template."""
        line, inner = self._place(error.__traceback__, sls)
        source = text if line else ""
        if isinstance(error, jinja2.UndefinedError):
            return TemplateFailure(f"Jinja variable {error}{inner}", line, source, sls=sls)
        if isinstance(
            error,
            (
                jinja2.TemplateRuntimeError,
                jinja2.TemplateSyntaxError,
                jinja2.exceptions.SecurityError,
            ),
        ):
            quotable = isinstance(error, jinja2.TemplateSyntaxError)
            return TemplateFailure(
                f"Jinja syntax error: {error}{inner}", line, source, sls=sls, quotable=quotable
            )
        if isinstance(error, (FilterError, *self.host.function_errors)):
            return TemplateFailure(
                f"Problem running salt function in Jinja template: {error}{inner}",
                line,
                source,
                sls=sls,
                quotable=False,
            )
        trace = "".join(traceback.format_exception(error))
        return TemplateFailure(
            f"Jinja error: {error}{inner}",
            line,
            f"{source}\n{trace}" if source else "",
            trace=trace,
            sls=sls,
            quotable=isinstance(error, TemplateNotFound),
        )

    def _place(self, where: TracebackType | None, sls: str) -> tuple[int, str]:
        """
        The line in the rendered text, or 0 and a quote from the imported file at fault.
        """
        filename, line = "", 0
        while where is not None:
            code = where.tb_frame.f_code
            if code.co_name in _TEMPLATE_FRAMES:
                filename, line = code.co_filename, where.tb_lineno
            where = where.tb_next
        if not filename or filename[0] == "<":
            return line, ""
        if sls and filename.endswith(sls.replace(".", "/")):
            return line, ""
        try:
            text = self.source(filename)
        except (OSError, UnicodeDecodeError, TemplateNotFound):
            return line, ""
        return 0, f"\n{filename}({line}):\n{excerpt(text, line, marker=MARKER)}"


@jinja2.pass_context
def show_full_context(context: Context) -> Any:
    """Every variable of the template, in simple types."""
    return simple_types({**context.parent, **context.vars})


def _strict(engine: JinjaEngine) -> type[jinja2.StrictUndefined]:
    """Undefineds of an engine; their message names what lacks an attribute as in Salt."""

    class Strict(jinja2.StrictUndefined):
        __slots__ = ()

        @property
        def _undefined_message(self) -> str:
            text = str(super()._undefined_message)
            owner = self._undefined_obj
            if not isinstance(owner, dict) or type(owner) is OrderedDict:
                return text
            if type(owner).__module__.startswith("salt."):
                # It bears the name of the class that Salt has in its place
                return text
            shown = engine.shown_as(owner) or "dict"
            return text.replace(object_type_repr(owner), f"{shown} object", 1)

    # Python's errors name the type of what a filter cannot take.
    Strict.__name__ = Strict.__qualname__ = "StrictUndefined"
    Strict.__module__ = "jinja2.runtime"
    return Strict


def _unfolded(function: Callable[..., Any]) -> Callable[..., Any]:
    """
    An impure filter that Jinja does not work out when it compiles a template.

    Of constants it would, and with compiled templates kept, dice would be thrown only once.
    """

    @jinja2.pass_context
    def call(_context: Context, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


@jinja2.pass_context
def _ifelse(context: Context, *args: Any, **kwargs: Any) -> Any:
    """C{ifelse(matcher, value, ..., default)}: the C{match.ifelse} function as a global."""
    return context["salt"]["match.ifelse"](*args, **kwargs)


_SIMPLE_KEYS = (str, int, float, bool)


def simple_types(data: Any) -> Any:
    """Nested data with everything that is not plain replaced by its C{repr}."""
    if isinstance(data, dict):
        return {
            key if key is None or isinstance(key, _SIMPLE_KEYS) else repr(key): _simple(value)
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [
            simple_types(v)
            if isinstance(v, (dict, list))
            else v
            if isinstance(v, tuple)
            else _simple(v)
            for v in data
        ]
    return data


def _simple(value: Any) -> Any:
    if isinstance(value, (dict, list, tuple)):
        return simple_types(value)
    if value is None or isinstance(value, _SIMPLE_KEYS):
        return value
    return repr(value)
