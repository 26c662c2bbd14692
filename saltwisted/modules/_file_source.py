"""
The source of a managed file: which of several, its announced hash, its signature, its content.
"""

from __future__ import annotations

import os
import tempfile
import urllib.parse
from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from saltwisted.modules import _file_owners, _files, _sums
from saltwisted.modules._file_around import Around
from saltwisted.worker import templates
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError


def _exists_by_url(parts: urllib.parse.ParseResult) -> bool:
    return any(
        place and os.path.exists(place)
        for place in (parts.netloc, parts.path, os.path.join(parts.netloc, parts.path))
    )


def _reachable(url: str) -> bool:
    """Whether a server has a file, without fetching it; certificates are checked."""
    import urllib.error
    import urllib.request

    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=60):
            return True
    except (urllib.error.URLError, OSError, ValueError):
        return False


def choose(salt: Any, source: Any, source_hash: Any, saltenv: str) -> tuple[Any, Any]:
    """
    Of several sources the first that is there, with its hash.

    @raises CommandExecutionError: none of them is.
    """
    if not isinstance(source, list):
        return source, source_hash
    known: dict[str, set[str]] = {}

    def on_master(path: str, env: str) -> bool:
        if env not in known:
            known[env] = {*salt["cp.list_master"](env), *salt["cp.list_master_dirs"](env)}
        return path in known[env]

    for one in source:
        its_hash = source_hash
        if isinstance(one, dict):
            if len(one) != 1:
                continue
            one, its_hash = next(iter(one.items()))
            its_hash = its_hash or source_hash
        if not isinstance(one, str):
            continue
        parts = urllib.parse.urlparse(one)
        path, env = _files.parse_url(one)
        if (
            (parts.scheme in ("salt", "") and on_master(path, env or saltenv))
            or (parts.scheme == "file" and _exists_by_url(parts))
            or (parts.scheme in ("http", "https", "ftp") and _reachable(one))
            or (one.startswith(os.sep) and os.path.exists(one))
        ):
            return one, its_hash
    raise CommandExecutionError("none of the specified sources were found")


def clean_tmp(opts: Mapping[str, Any], path: Any) -> None:
    """Remove a file that was made here for a template's output."""
    prefix = os.path.join(tempfile.gettempdir(), _files.TEMPFILE_PREFIX)
    if not path or not path.startswith(prefix) or not os.path.exists(path):
        return
    roots = [root for group in (opts.get("file_roots") or {}).values() for root in group]
    if not any(path.startswith(root) for root in roots):
        os.remove(path)


def own_context(defaults: Any, context: Any) -> dict[str, Any]:
    """The variables that a state gives to its template."""
    merged = defaults if defaults else {}
    if context:
        merged.update(context)
    return dict(merged)


@frozen(kw_only=True, eq=False)
class Signing:
    """
    By whom a file has to be signed, and how that is verified.

    @ivar saltenv: where a signature that is a file of its own is fetched from.
    """

    signed_by_any: Any = None
    signed_by_all: Any = None
    keyring: Any = None
    gnupghome: Any = None
    sig_backend: str = "gpg"
    saltenv: str = "base"
    verify_ssl: bool = True

    def verify(self, salt: Any, on_file: str, signature: Any = None) -> None:
        """
        Verify a file's signature; what fails is removed from the cache, and from nowhere else.

        @param signature: where it is, or C{True} or C{None} for one within the file.
        @raises CommandExecutionError: it does not verify, or cannot be verified here.
        """
        function = f"{self.sig_backend}.verify"
        if function not in salt:
            raise CommandExecutionError(
                f"Signature verification requires the {self.sig_backend} module, which could not "
                "be found. Make sure you have the necessary tools and libraries intalled"
            )
        given: Any = None
        cached: list[str] = []
        if signature is not None and signature is not True:
            found = []
            for one in [signature] if isinstance(signature, str) else signature:
                local = salt["cp.cache_file"](one, self.saltenv, verify_ssl=self.verify_ssl)
                if local:
                    cached.append(local)
                elif self.sig_backend == "gpg":
                    raise CommandExecutionError(f"Detached signature file {one} not found")
                found.append(local or one)
            given = found[0] if isinstance(signature, str) else found
        result = salt[function](
            filename=on_file,
            signature=given,
            keyring=self.keyring,
            gnupghome=self.gnupghome,
            signed_by_any=self.signed_by_any,
            signed_by_all=self.signed_by_all,
        )
        if result["res"] is True:
            return
        for path in (*cached, on_file):
            _files.forget_cached(path, salt["config.get"]("cachedir"))
        raise CommandExecutionError(
            f"The file's signature could not be verified: {result['message']}"
        )


@frozen(kw_only=True, eq=False)
class Announced:
    """
    The hash that a state announces for a source.

    @ivar source_hash: itself, or the place of a list of hashes.
    @ivar source_hash_sig: the signature of that list.
    @ivar file_name: the file, which the list may name.
    """

    file_name: str
    source: str
    source_hash: Any
    source_hash_name: str | None
    source_hash_sig: Any
    signing: Signing

    def find(self, salt: Any) -> dict[str, str]:
        """
        The hash and its kind.

        @raises CommandExecutionError: there is none.
        """
        place = self._place(salt)
        if place is None:
            return _sums.parse(self.source_hash)
        found = _file_owners.extract_hash(
            place, "", self.file_name, self.source, self.source_hash_name
        )
        if found is None:
            raise _sums.invalid(self.source_hash)
        found["hsum"] = found["hsum"].lower()
        return found

    def _place(self, salt: Any) -> str | None:
        """Where the list of hashes is on this machine; C{None} if there is no list."""
        if os.path.isabs(self.source_hash):
            if self.source_hash_sig:
                self.signing.verify(salt, str(self.source_hash), self.source_hash_sig)
            return str(self.source_hash)
        scheme = urllib.parse.urlparse(self.source_hash).scheme
        if scheme not in _files.VALID_PROTOS:
            if scheme:
                raise _sums.invalid(self.source_hash)
            return None
        place: str | None = salt["cp.cache_file"](
            self.source_hash, self.signing.saltenv, verify_ssl=self.signing.verify_ssl
        )
        if not place:
            shown = _files.hidden_credentials(self.source_hash)
            raise CommandExecutionError(f"Source hash file {shown} not found")
        if self.source_hash_sig:
            self.signing.verify(salt, place, self.source_hash_sig)
        return place


class Unavailable(Exception):
    """There is no such source; why, and where it would have been."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem)
        self.path = path


@define(kw_only=True, eq=False, repr=False)
class Fetch:
    """
    The file that a state wants, fetched and rendered.

    @ivar kwargs: further variables of the template.
    @ivar path: where it is on this machine.
    @ivar summed: its hash and the kind of that.
    """

    around: Around
    name: str
    template: str | None
    source: Any
    source_hash: Any
    source_hash_name: str | None
    user: Any
    group: Any
    mode: Any
    attrs: Any
    saltenv: str
    context: Any
    defaults: Any
    skip_verify: bool
    use_etag: bool
    source_hash_sig: Any
    signing: Signing
    kwargs: dict[str, Any]
    path: str = field(default="", init=False)
    summed: dict[str, Any] = field(factory=dict, init=False)

    def fetch(self) -> tuple[str, dict[str, Any], str]:
        """Its local path, its hash, or an error text."""
        try:
            scheme = self._announced() if self.source else ""
            if self.source and (self.template or scheme in _files.REMOTE_PROTOS):
                self._cache()
                if self.template:
                    self._render()
        except Unavailable as missing:
            return missing.path, {}, str(missing)
        return self.path, self.summed, ""

    def _announced(self) -> str:
        """Learn what hash it should have; answers with its scheme."""
        parts = urllib.parse.urlparse(self.source)
        scheme = parts.scheme if parts.scheme in _files.VALID_PROTOS else ""
        if scheme in _files.LOCAL_PROTOS:
            local = self.source
            if scheme == "file":
                local = os.path.join(parts.netloc, parts.path).rstrip(os.sep)
            self.path = local
            if not os.path.exists(local):
                raise Unavailable(f"Local file source {local} does not exist")
        if scheme == "salt":
            self.summed = self.around.salt["cp.hash_file"](self.source, self.saltenv)
            if not self.summed:
                raise Unavailable(
                    f"Source file {self.source} not found in saltenv '{self.saltenv}'"
                )
        elif not self.source_hash and scheme in _files.LOCAL_PROTOS:
            self.summed = {"hsum": _file_owners.get_hash(self.path), "hash_type": "sha256"}
        elif not self.skip_verify:
            self._look_up()
        return scheme

    def _look_up(self) -> None:
        if self.source_hash:
            announced = Announced(
                file_name=self.name,
                source=self.source,
                source_hash=self.source_hash,
                source_hash_name=self.source_hash_name,
                source_hash_sig=self.source_hash_sig,
                signing=self.signing,
            )
            try:
                self.summed = announced.find(self.around.salt)
            except CommandExecutionError as error:
                raise Unavailable(f"Unable to manage file: {error.strerror}") from error
        elif not self.use_etag:
            raise Unavailable(
                "Unable to verify upstream hash of source file "
                f"{_files.hidden_credentials(self.source)}, please set source_hash or set "
                "skip_verify to True"
            )

    def _cache(self) -> None:
        """Have it in the cache as it is now."""
        again = False
        salt = self.around.salt
        cached = salt["cp.is_cached"](self.source, self.saltenv)
        if cached and (self.source_hash or self.skip_verify or self.use_etag):
            kind = self.summed.get("hash_type", "sha256")
            have = _file_owners.get_hash(cached, form=kind)
            if self.skip_verify:
                self.path = cached
                self.summed = {"hsum": have, "hash_type": kind}
            elif self.use_etag or have != self.summed.get("hsum", self.around.opts["hash_type"]):
                again = True
            else:
                self.path = cached
        shown = _files.hidden_credentials(self.source)
        if not self.path or again:
            try:
                self.path = salt["cp.cache_file"](
                    self.source,
                    self.saltenv,
                    source_hash=self.summed.get("hsum"),
                    verify_ssl=self.signing.verify_ssl,
                    use_etag=self.use_etag,
                )
            except Exception as error:
                raise Unavailable(f"Failed to cache {shown}: {error}") from error
        if not self.path or not os.path.exists(self.path):
            raise Unavailable(f"Source file '{shown}' not found", self.path)
        if self.path == self.name:
            raise SaltInvocationError("Source file cannot be the same as destination")

    def _render(self) -> None:
        template = self.template or ""
        if not templates.known(template):
            raise Unavailable(f"Specified template format {template} is not supported", self.path)
        own = own_context(self.defaults, self.context)
        names = ("name", "source", "user", "group", "mode", "attrs", "saltenv")
        variables = {
            **{name: getattr(self, name) for name in names},
            **self.around.template_names,
            **self.kwargs,
        }
        try:
            with open(self.path, "rb") as file:
                data = file.read()
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            if not _files.is_text(self.path, 2048):
                # A picture among the templates of file.recurse is copied as it is.
                return
            raise
        rendered = templates.render_text(text, template, variables, self.path, own).encode()
        self.path = _files.temporary_with(rendered)
        self.summed = {"hash_type": "sha256", "hsum": _file_owners.get_hash(self.path)}
