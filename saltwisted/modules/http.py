"""
Questions to web servers.
"""

from __future__ import annotations

import http.cookiejar
import json
import logging
import os
import secrets
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree

import msgpack
from attrs import define, field

from saltwisted.config.compat import COMPAT_VERSION_TEXT
from saltwisted.modules import _data, _files, _http, _yaml
from saltwisted.modules._arguments import taken
from saltwisted.worker import templates
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__opts__: dict[str, Any]
__grains__: dict[str, Any]
__pillar__: dict[str, Any]

USERAGENT = f"Salt/{COMPAT_VERSION_TEXT}"

_BUNDLE_URL = "https://curl.se/ca/cacert.pem"
_DECODES = ("json", "xml", "yaml", "plain")


def __virtual__() -> str:
    return "http"


def query(url: str, **kwargs: Any) -> dict[str, Any]:
    """
    Ask a web server.

    What is asked: C{method}, C{params} (joined to the address), C{data} (a text, or a map that is
    sent as a form) or C{data_file}, C{header_dict}, C{header_list}, C{header_file}, C{username}
    and C{password}, C{cookies}, C{agent}; C{formdata=True} sends the data as a file of a form,
    as C{formdata_fieldname} and C{formdata_filename}. C{data_render} and C{header_render} render
    the files with C{template_dict} first.

    What is told: the C{body}; with C{status}, C{headers}, C{text} those as well; with C{decode}
    a C{dict} from JSON, XML or YAML (C{decode_type}, else as the answer says). C{text_out},
    C{headers_out}, C{decode_out} write to files. If the server says no, C{error} and C{status}
    are told; with C{raise_error=False} its answer, like any other.

    C{verify_ssl}, C{ca_bundle}, C{cert} are about TLS; C{opts} overrides options of the minion
    (C{http_connect_timeout}, C{http_request_timeout} in seconds, C{http_max_body} in bytes,
    C{proxy_host}, C{proxy_port}, ...).

    @raises CommandExecutionError: the question makes no sense, or the answer cannot be decoded.

    CLI Example::

        salt '*' http.query http://example.org/
        salt '*' http.query http://example.org/api method=POST data='{"a": 1}' decode=True
    """
    opts = {**__opts__, **(kwargs.pop("opts", None) or {})}
    try:
        given = _data.clean_kwargs(**kwargs)
        return Query(url=url, opts=opts, **taken(Query, given)).run()
    except Exception as error:
        raise CommandExecutionError(str(error)) from error


@define(kw_only=True, eq=False, slots=False)
class Query:
    """
    One question. Words that nobody knows are not minded, as Salt does.

    @ivar told: what the one who asked is told.
    """

    url: str
    opts: Mapping[str, Any] = field(repr=False)
    method: str = "GET"
    params: Any = None
    data: Any = None
    data_file: str | None = None
    header_dict: Mapping[str, Any] | None = None
    header_list: Any = None
    header_file: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    auth: Any = field(default=None, repr=False)
    decode: bool = False
    decode_type: str = "auto"
    status: bool = False
    headers: bool = False
    text: bool = False
    cookies: Any = None
    cookie_jar: str | None = None
    cookie_format: str = "lwp"
    persist_session: bool = False
    session_cookie_jar: str | None = None
    data_render: bool = False
    data_renderer: str | None = None
    header_render: bool = False
    header_renderer: str | None = None
    template_dict: Mapping[str, Any] | None = None
    test: bool = False
    test_url: str | None = None
    ca_bundle: str | None = None
    verify_ssl: bool | None = None
    cert: Any = None
    text_out: str | None = None
    headers_out: str | None = None
    decode_out: str | None = None
    stream: bool = False
    streaming_callback: Callable[[bytes], Any] | None = None
    header_callback: Callable[[str], Any] | None = None
    handle: bool = False
    agent: str = USERAGENT
    hide_fields: Any = None
    raise_error: bool = True
    formdata: bool = False
    formdata_fieldname: str | None = None
    formdata_filename: str | None = None
    decode_body: bool = True
    told: dict[str, Any] = field(factory=dict, init=False)

    def run(self) -> dict[str, Any]:
        """Ask, and tell what was answered."""
        if self.test is True:
            if self.test_url is None:
                return {}
            self.url = self.test_url
            self.told["test"] = True
        elif self.params:
            self.url = _with_params(self.url, self.params)
        self._read_files()
        session = self.session_cookie_jar or _cached(self.opts, "cookies.session.p")
        asked = self._asked_headers(session)
        if self.formdata and not self.formdata_fieldname:
            error = "formdata_fieldname is required when formdata=True"
            log.error(error)
            return {"error": error}
        body = self._body(asked)
        log.debug(
            "Requesting URL %s using %s method", _shown(self.url, self.hide_fields), self.method
        )
        jar = None
        if self.cookies is not None:
            jar = _jar(self.cookie_jar or _cached(self.opts, "cookies.txt"), self.cookie_format)
        answer = self._send(asked, body, jar)
        if answer is None:
            return self.told
        if self.stream is True or self.handle is True:
            return {"handle": answer, "body": answer.body}
        content = self.told["body"] = _decoded(answer, self.decode_body)
        self._write_out(answer, content)
        if jar is not None:
            jar.save()
        if self.persist_session is True and "Set-Cookie" in answer.headers:
            _keep_session(session, answer.headers["Set-Cookie"])
        return self._tell(answer, content)

    def _read_files(self) -> None:
        """Data and headers from files."""
        if self.data_file is not None:
            self.data = _content(
                self.data_file, self.data_render, self.data_renderer, self.template_dict
            )
        if self.header_file is not None:
            found = _content(
                self.header_file, self.header_render, self.header_renderer, self.template_dict
            )
            if isinstance(found, dict):
                self.header_dict = found
            else:
                self.header_list = str(found).splitlines()

    def _asked_headers(self, session: str) -> dict[str, str]:
        asked = {str(key): str(value) for key, value in (self.header_dict or {}).items()}
        if self.persist_session is True:
            asked.update(_session(session))
        for line in self.header_list or ():
            name, colon, value = line.partition(":")
            if colon:
                asked[name.strip()] = value.strip()
        agent = self.agent
        asked["User-agent"] = f"{agent} http.query()" if agent == USERAGENT else agent
        return asked

    def _body(self, asked: dict[str, str]) -> bytes | None:
        """What is sent; a form says in the headers what it is."""
        if not self.formdata:
            return _body(self.data)
        asked["Content-Type"], body = _form_file(
            str(self.formdata_fieldname), self.formdata_filename, self.data
        )
        return body

    def _send(
        self, asked: dict[str, str], body: bytes | None, jar: http.cookiejar.FileCookieJar | None
    ) -> _http.Answer | None:
        """The answer; C{None} if there is none to look at, and L{told} says why."""
        login = self.auth
        if not login and self.username is not None:
            login = (str(self.username), str(self.password or ""))
        client = _client(self.opts, self.url, self.ca_bundle, self.verify_ssl, self.cert)
        client.jar = jar
        client.on_header = self.header_callback
        client.on_chunk = self.streaming_callback
        request = _http.Request(self.method, self.url, asked, body, login and tuple(login))
        try:
            return client.send(request)
        except _http.HttpError as error:
            if error.answer is not None and not self.raise_error:
                return error.answer
            self.told["status"] = error.code
            self.told["error"] = str(error)
            if error.answer is not None:
                self.told["body"] = _decoded(error.answer, self.decode_body)
        except OSError as error:
            if self.status is True:
                self.told["status"] = 0
            self.told["error"] = str(error)
            log.debug("Cannot perform 'http.query': %s", error)
        return None

    def _write_out(self, answer: _http.Answer, content: Any) -> None:
        if self.text_out is not None:
            _write(self.text_out, content)
        if self.headers_out is not None and os.path.exists(self.headers_out):
            lines = (f"{key}: {item}\n" for key, item in answer.headers.items())
            _write(self.headers_out, "".join(lines))

    def _tell(self, answer: _http.Answer, content: Any) -> dict[str, Any]:
        """What else was asked for of an answer."""
        told = self.told
        if self.status is True:
            told["status"] = answer.code
        if self.headers is True:
            told["headers"] = answer.headers
        text = self.text
        if self.decode is True:
            kind = self.decode_type
            if kind == "auto":
                form = answer.headers.get("Content-Type", "application/json")
                kind = next((name for name in ("xml", "json", "yaml") if name in form), "plain")
            if kind not in _DECODES:
                told["error"] = (
                    f"Invalid decode_type specified. Valid decode types are: {_DECODES!r}"
                )
                log.error(told["error"])
                return told
            if kind == "plain":
                text = True
            else:
                told["dict"] = _parsed(content, kind)
            if self.decode_out:
                _write(self.decode_out, content)
        if text is True:
            told["text"] = content
        return told


def _parsed(content: Any, kind: str) -> Any:
    """Data from a text in JSON, XML or YAML."""
    if kind == "json":
        return json.loads(content)
    if kind == "xml":
        return [_from_xml(item) for item in ElementTree.fromstring(content)]
    return _yaml.load(content)


def _with_params(url: str, params: Any) -> str:
    """The address with more arguments behind those it has."""
    if not isinstance(params, (dict, list, tuple)):
        raise TypeError(f"'args' parameter should be dict, list or tuple. Not {type(params)}")
    parts = urllib.parse.urlsplit(url)
    pairs = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
    pairs += list(params.items() if isinstance(params, dict) else params)
    return urllib.parse.urlunsplit(parts._replace(query=urllib.parse.urlencode(pairs)))


def _content(
    path: str, render: bool, renderer: str | None, variables: Mapping[str, Any] | None
) -> Any:
    """What is in a file, rendered if wished: text, or with the usual renderers data."""
    if not render:
        with open(path, encoding="utf-8") as file:
            return file.read()
    context = {
        "salt": __salt__,
        "grains": __grains__,
        "pillar": __pillar__,
        "opts": __opts__,
        **(variables or {}),
    }
    pipe = renderer or __opts__.get("renderer") or "jinja|yaml"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    first, _, rest = pipe.partition("|")
    if templates.known(first):
        text = templates.render_text(text, first, context, path)
        if not rest:
            return text
        pipe = rest
    return templates.render_data(context, text=text, pipe=pipe)


def _cached(opts: Mapping[str, Any], name: str) -> str:
    return os.path.join(str(opts.get("cachedir") or ""), name)


def _session(path: str) -> dict[str, str]:
    """The header with the cookies of the last time."""
    try:
        with open(path, "rb") as file:
            found = msgpack.unpackb(file.read())
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _keep_session(path: str, header: str) -> None:
    """Keep the names and values of cookies, for nobody else to read."""
    # A comma stands between cookies, and in dates, where no name comes next.
    firsts = (item.partition(";")[0].strip() for item in header.split(","))
    pairs = [item for item in firsts if "=" in item]
    _files.write_atomically(path, msgpack.packb({"Cookie": "; ".join(pairs)}), 0o600)


def _jar(path: str, form: str) -> http.cookiejar.FileCookieJar:
    """The cookies in a file, which is made if it is not there."""
    kind = http.cookiejar.MozillaCookieJar if form == "mozilla" else http.cookiejar.LWPCookieJar
    jar = kind(path)
    if not os.path.isfile(path):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        jar.save()
    jar.load()
    return jar


def _body(data: Any) -> bytes | None:
    if isinstance(data, dict):
        data = urllib.parse.urlencode(data)
    return data if data is None or isinstance(data, bytes) else str(data).encode()


def _form_file(field: str, name: str | None, data: Any) -> tuple[str, bytes]:
    """A form with one file in it: its content type, and itself."""
    border = secrets.token_hex(16)
    field, name = (item.replace('"', "%22") for item in (field, name or field))
    head = f'Content-Disposition: form-data; name="{field}"; filename="{name}"'
    if "\r" in head or "\n" in head:
        raise ValueError("The name of a form field contains a line break")
    body = b"--%s\r\n%s\r\n\r\n%s\r\n--%s--\r\n" % (
        border.encode(),
        head.encode(),
        _body(data) or b"",
        border.encode(),
    )
    return f"multipart/form-data; boundary={border}", body


def _client(
    opts: Mapping[str, Any], url: str, bundle: str | None, verify: bool | None, cert: Any
) -> _http.Client:
    bundle = bundle or _http.ca_bundle(opts)
    verify = opts.get("verify_ssl", True) if verify is None else verify
    cert = opts.get("cert") if cert is None else cert
    if cert is not None and not isinstance(cert, (str, list, tuple)):
        log.error("The client-side certificate path that was passed is not valid: %s", cert)
        cert = None
    proxy = None
    host = urllib.parse.urlsplit(url).hostname
    if opts.get("proxy_host") and opts.get("proxy_port") and host not in opts.get("no_proxy", ()):
        login = ""
        if opts.get("proxy_username") and opts.get("proxy_password"):
            words = (str(opts["proxy_username"]), str(opts["proxy_password"]))
            login = ":".join(urllib.parse.quote(word, safe="") for word in words) + "@"
        proxy = f"http://{login}{opts['proxy_host']}:{opts['proxy_port']}"
    return _http.Client(
        lambda: _http.tls_context(bool(verify), bundle, cert),
        connect_timeout=float(opts.get("http_connect_timeout") or 20.0),
        timeout=float(opts.get("http_request_timeout") or 3600.0),
        limit=int(opts.get("http_max_body") or 100 << 30),
        proxy=proxy,
    )


def _decoded(answer: _http.Answer, decode_body: bool) -> Any:
    """The body as text: as its type says, else as UTF-8 unless bytes are wanted."""
    kind, *words = (part.strip() for part in answer.headers.get("Content-Type", "").split(";"))
    if kind.lower().startswith("text/"):
        for word in words:
            name, _, value = word.partition("=")
            if name.strip().lower() == "charset":
                return answer.body.decode(value.strip().strip('"'))
    return answer.body.decode() if decode_body else answer.body


def _write(path: str, content: str | bytes) -> None:
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def _from_xml(element: ElementTree.Element) -> dict[str, Any]:
    """Names and texts of what is inside, lists where a name comes more than once."""
    if not len(element):
        return {element.tag.rpartition("}")[2]: element.text}
    found: dict[str, Any] = {}
    for item in element:
        name = item.tag.rpartition("}")[2]
        if name not in found:
            found[name] = _from_xml(item) if len(item) else item.text
        else:
            if not isinstance(found[name], list):
                found[name] = [found[name]]
            found[name].append(_from_xml(item))
    return found


def _shown(url: str, hidden: Any) -> str:
    """An address for the log: without a login and the values that are to be hidden."""
    parts = urllib.parse.urlsplit(_files.hidden_credentials(str(url)))
    if isinstance(hidden, list):
        words = [
            f"{word.partition('=')[0]}=XXXXXXXXXX" if word.partition("=")[0] in hidden else word
            for word in parts.query.split("&")
        ]
        parts = parts._replace(query="&".join(words))
    return urllib.parse.urlunsplit(parts)


def wait_for_successful_query(url: str, wait_for: float = 300, **kwargs: Any) -> dict[str, Any]:
    """
    Ask until the answer is no error.

    @param wait_for: seconds until the last try; its answer is given whatever it is.
    @keyword request_interval: seconds between tries.
    @raises CommandExecutionError: the last try could not even be made.

    CLI Example::

        salt '*' http.wait_for_successful_query http://example.org/ wait_for=160
    """
    end = time.monotonic() + wait_for
    while True:
        try:
            result = query(url, **kwargs)
        except CommandExecutionError:
            if time.monotonic() > end:
                raise
        else:
            if time.monotonic() > end or not (result.get("Error") or result.get("error")):
                return result
        if "request_interval" in kwargs:
            time.sleep(kwargs["request_interval"])


def update_ca_bundle(
    target: str | None = None, source: str | None = None, merge_files: Any = None
) -> None:
    """
    Fetch certificate authorities.

    @param target: the file to write; else option C{ca_bundle}, else the one in use.
    @param source: where from; else option C{ca_bundle_url}, else those of curl.
    @param merge_files: one or several files to append.

    CLI Example::

        salt '*' http.update_ca_bundle merge_files=/etc/ssl/own.pem
    """
    target = target or __salt__["config.get"]("ca_bundle", None) or _http.ca_bundle(__opts__)
    source = source or __salt__["config.get"]("ca_bundle_url", None) or _BUNDLE_URL
    if target is None:
        log.error("Unable to detect location to write CA bundle to")
        return
    if isinstance(merge_files, str):
        merge_files = [merge_files]
    result = Query(url=source, opts=__opts__, text_out=target).run()
    if "error" in result:
        log.error("Unable to fetch %s: %s", _shown(source, None), result["error"])
        return
    if merge_files is not None and not isinstance(merge_files, list):
        log.error("A value was passed as merge_files which was not either a string or a list")
        return
    more = ""
    for path in merge_files or ():
        try:
            with open(path, encoding="utf-8") as file:
                more += "\n" + file.read()
        except OSError as error:
            log.error("Reading from %s caused the following error: %s", path, error)
    if more:
        try:
            with open(target, "a", encoding="utf-8") as file:
                file.write("\n" + more)
        except OSError as error:
            log.error("Writing to %s caused the following error: %s", target, error)
