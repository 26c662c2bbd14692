"""Salt's C{http} against a small server on loopback."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import ssl
import threading
import zlib
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.exceptions import CommandExecutionError
from tests.modules.harness import load

XML = b'<a xmlns="urn:x"><b>1</b><b>2</b><c><d/>t</c><e x="1"><f>3</f><f><g>4</g></f></e></a>'
PAGES: dict[str, tuple[int, bytes, list[tuple[str, str]]]] = {
    "/": (200, b"ok", []),
    "/404": (404, b"no such", []),
    "/xml": (200, XML, [("Content-Type", "text/xml")]),
    "/yaml": (200, b"a: 1\nb: [x, y]\n", [("Content-Type", "application/yaml")]),
    "/latin": (200, b"\xe4", [("Content-Type", "text/plain; charset=iso-8859-1")]),
    "/bin": (200, b"\xff\xfe", [("Content-Type", "application/octet-stream")]),
    "/gz": (200, gzip.compress(b"packed"), [("Content-Encoding", "gzip")]),
    "/deflate": (200, zlib.compress(b"packed")[2:-4], [("Content-Encoding", "deflate")]),
    "/br": (200, b"x", [("Content-Encoding", "br")]),
    "/bomb": (200, gzip.compress(bytes(1 << 20)), [("Content-Encoding", "gzip")]),
    "/big": (200, b"x" * 5000, []),
    "/short": (200, b"abc", [("Content-Length", "10")]),
    "/loop": (302, b"", [("Location", "/loop")]),
    "/ftp": (302, b"", [("Location", "ftp://x/")]),
    "/cookie": (
        200,
        b"",
        [
            ("Set-Cookie", "a=b; path=/"),
            ("Set-Cookie", "q=r; expires=Thu, 01 Jan 2099 00:00:00 GMT"),
        ],
    ),
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers from C{PAGES}, with what it was asked (C{/echo}), or with a redirect."""

    def log_message(self, *args: Any) -> None:
        pass

    def reply(self, code: int, body: bytes, headers: list[tuple[str, str]]) -> None:
        self.send_response(code)
        for key, value in headers:
            self.send_header(key, value)
        if "Content-Length" not in dict(headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, rest = self.path.partition("?")
        if path == "/echo":
            told = [self.command, rest, dict(self.headers.items()), body.decode("latin-1")]
            self.reply(200, json.dumps(told).encode(), [("Content-Type", "application/json")])
        elif path == "/go":
            code, _, place = rest.partition(",")
            self.reply(int(code), b"moved", [("Location", place)])
        elif path == "/silence":
            self.server.release.wait()  # type: ignore[attr-defined]
            self.close_connection = True
        elif path == "/close":
            self.close_connection = True
        else:
            self.reply(*PAGES[path])

    do_GET = do_POST = do_PUT = do_HEAD = answer


class Server(http.server.ThreadingHTTPServer):
    """Its threads end when the test lets them."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news."""


class HttpTests(SynchronousTestCase):
    """Questions and their answers."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        os.mkdir(self.folder)
        self.folder = os.path.abspath(self.folder)
        self.base = self.serve()
        self.opts = {"cachedir": self.folder, "file_roots": {}, "renderer": "jinja|yaml"}
        self.http = load("http", salt={"config.get": lambda name, default: default}, opts=self.opts)

    def serve(self, wrap: Callable[[Any], Any] | None = None) -> str:
        server = Server(("127.0.0.1", 0), Handler)
        server.release = threading.Event()  # type: ignore[attr-defined]
        if wrap is not None:
            server.socket = wrap(server.socket)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        self.addCleanup(server.release.set)  # type: ignore[attr-defined]
        return f"127.0.0.1:{server.server_address[1]}"

    def query(self, path: str, **kwargs: Any) -> Any:
        return self.http.query(f"http://{self.base}{path}", **kwargs)

    def echo(self, path: str = "/echo", **kwargs: Any) -> Any:
        return json.loads(self.query(path, **kwargs)["body"])

    def file(self, name: str, text: str = "") -> str:
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def text(self, name: str) -> str:
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def test_shape(self) -> None:
        """The body always, status, headers and text if they are asked for."""
        self.assertEqual(self.query("/"), {"body": "ok"})
        full = self.query("/", status=True, headers=True, text=True)
        self.assertEqual((full["status"], full["text"]), (200, "ok"))
        self.assertEqual(full["headers"]["Content-Length"], "2")

    def test_asked(self) -> None:
        """Method, arguments, data and headers reach the server as Salt sends them."""
        for kwargs, method, rest, body in (
            ({"params": {"a": "b c"}}, "GET", "a=b+c", ""),
            ({"method": "POST", "data": {"a": "1", "b": "ü"}}, "POST", "", "a=1&b=%C3%BC"),
            ({"method": "PUT", "data": "text"}, "PUT", "", "text"),
        ):
            told = self.echo(**kwargs)
            self.assertEqual([told[0], told[1], told[3]], [method, rest, body])
        self.assertEqual(told[2]["User-agent"], "Salt/3008.5 http.query()")
        told = self.echo(method="POST", header_dict={"X-A": 1}, header_list=["Q: http://x", "bad"])
        self.assertEqual(told[2]["X-A"], "1")
        self.assertEqual(told[2]["Q"], "http://x")
        self.assertEqual(told[2]["Content-Type"], "application/x-www-form-urlencoded")

    def test_files(self) -> None:
        """Data and headers come from files, rendered if wished."""
        told = self.echo(
            method="POST",
            data_file=self.file("data", "plain {{ x }}"),
            header_file=self.file("headers", "X-B: {{ q }}"),
            header_render=True,
            header_renderer="jinja",
            template_dict={"q": "good"},
        )

        self.assertEqual(told[3], "plain {{ x }}")
        self.assertEqual(told[2]["X-B"], "good")

    def test_form(self) -> None:
        """A file of a form has its field and name, and needs the field."""
        told = self.echo(
            method="POST", formdata=True, formdata_fieldname="f", formdata_filename="n", data="d"
        )
        self.assertIn('name="f"; filename="n"\r\n\r\nd\r\n--', told[3])
        self.assertTrue(told[2]["Content-Type"].startswith("multipart/form-data; boundary="))
        error = {"error": "formdata_fieldname is required when formdata=True"}
        self.assertEqual(self.query("/echo", formdata=True), error)

    def test_login(self) -> None:
        """User and password go into a header, from words and from the address."""
        for kwargs, url in (({"username": "u", "password": "p"}, ""), ({}, "u:p@")):
            told = self.http.query(f"http://{url}{self.base}/echo", decode=True, **kwargs)
            self.assertEqual(told["dict"][2]["Authorization"], "Basic dTpw")

    def test_refused(self) -> None:
        """An answer that says no is an error with status and body, unless it is not to be one."""
        self.assertEqual(
            self.query("/404"), {"status": 404, "error": "HTTP 404: Not Found", "body": "no such"}
        )
        self.assertEqual(
            self.query("/404", raise_error=False, status=True), {"body": "no such", "status": 404}
        )

    def test_nobody(self) -> None:
        """Without a connection there is an error, and with status a zero."""
        found = self.http.query("http://127.0.0.1:1/", status=True)

        self.assertEqual(found, {"status": 0, "error": "[Errno 111] Connection refused"})

    def test_broken(self) -> None:
        """Answers that end early, or never come, are errors with status 599."""
        soon = {"http_request_timeout": 0.05}
        for path, kwargs, error in (
            ("/close", {}, "Stream closed"),
            ("/short", {}, "Connection closed"),
            ("/silence", {"opts": soon}, "Timeout during request"),
        ):
            self.assertEqual(self.query(path, **kwargs), {"status": 599, "error": error})

    def test_nonsense(self) -> None:
        """Addresses that are none, and bodies that cannot be decoded, raise."""
        for url in ("ftp://127.0.0.1/", "127.0.0.1", "", f"http://{self.base}/bin"):
            self.assertRaises(CommandExecutionError, self.http.query, url)
        self.assertRaises(CommandExecutionError, self.query, "/", decode=True)
        self.assertRaises(CommandExecutionError, self.query, "/br")
        self.assertRaises(CommandExecutionError, self.query, "/", header_dict={"A": "b\r\nC: d"})

    def test_decode(self) -> None:
        """Bodies become data by their type, or by the one that is named."""
        xml = [{"b": "1"}, {"b": "2"}, {"d": None}, {"f": ["3", {"g": "4"}]}]
        self.assertEqual(self.query("/xml", decode=True)["dict"], xml)
        self.assertEqual(self.query("/yaml", decode=True)["dict"], {"a": 1, "b": ["x", "y"]})
        self.assertEqual(self.query("/yaml", decode=True, decode_type="plain")["text"][:4], "a: 1")
        self.assertIn("Invalid decode_type", self.query("/", decode=True, decode_type="z")["error"])
        self.assertEqual(self.query("/latin")["body"], "ä")
        self.assertEqual(self.query("/bin", decode_body=False)["body"], b"\xff\xfe")

    def test_packed(self) -> None:
        """Packed bodies are unpacked, whichever frame they have."""
        for path in ("/gz", "/deflate"):
            self.assertEqual(self.query(path)["body"], "packed")

    def test_limit(self) -> None:
        """No more is kept than the minion allows, and not after unpacking either."""
        for path in ("/big", "/bomb"):
            found = self.query(path, opts={"http_max_body": 1000})
            self.assertEqual(found["error"], "The response is larger than 1000 bytes")

    def test_moved(self) -> None:
        """Redirects are followed as browsers do, five times, and never off the web."""
        for code, method in (
            (301, "GET"),
            (302, "GET"),
            (303, "GET"),
            (307, "POST"),
            (308, "POST"),
        ):
            told = self.echo(f"/go?{code},/echo", method="POST", data="d")
            self.assertEqual((told[0], told[3]), (method, "d" if method == "POST" else ""))
        self.assertEqual(self.query("/loop")["error"], "HTTP 302: Found")
        self.assertRaises(CommandExecutionError, self.query, "/ftp")

    def test_secretsStay(self) -> None:
        """A login and cookies are kept from the server that a redirect leads to."""
        other = self.serve()
        kwargs: dict[str, Any] = {"username": "u", "password": "p", "header_dict": {"Cookie": "c"}}

        told = self.echo(f"/go?302,http://x:y@{other}/echo", **kwargs)

        self.assertFalse({"Authorization", "Cookie"} & set(told[2]))
        told = self.echo("/go?302,/echo", **kwargs)
        self.assertEqual(told[2]["Authorization"], "Basic dTpw")

    def test_proxy(self) -> None:
        """A proxy is asked with the whole address and its own login; some hosts are not."""
        opts = {
            "proxy_host": "127.0.0.1",
            "proxy_port": int(self.base.partition(":")[2]),
            "proxy_username": "u",
            "proxy_password": "p",
        }
        seen: list[str] = []
        real = Handler.answer

        def answer(handler: Handler) -> None:
            seen.append(handler.path)
            handler.path = "/echo"
            real(handler)

        self.patch(Handler, "do_GET", answer)
        told = json.loads(self.http.query("http://nosuch.invalid/a", opts=opts)["body"])
        self.assertEqual(seen, ["http://nosuch.invalid/a"])
        self.assertEqual(told[2]["Proxy-Authorization"], "Basic dTpw")
        self.assertEqual(told[2]["Host"], "nosuch.invalid")
        opts["no_proxy"] = ["127.0.0.1"]
        opts["proxy_port"] = 1
        self.assertEqual(json.loads(self.query("/echo", opts=opts)["body"])[0], "GET")

    def test_cookies(self) -> None:
        """Cookies are kept in a private file, and sent the next time."""
        path = os.path.join(self.folder, "cookies.txt")
        self.query("/cookie", cookies=True)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(self.echo(cookies=True)[2]["Cookie"], "q=r")

    def test_session(self) -> None:
        """A session's cookies are kept as well, for nobody else to read."""
        self.query("/cookie", persist_session=True)
        path = os.path.join(self.folder, "cookies.session.p")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(self.echo(persist_session=True)[2]["Cookie"], "a=b; q=r")

    def test_out(self) -> None:
        """Texts, headers and data are written to files, a refusal is not."""
        text, headers = self.file("text", "old"), self.file("headers")
        self.query("/404", text_out=text)
        self.assertEqual(self.text("text"), "old")
        self.query("/", text_out=text, headers_out=headers)
        self.assertEqual(self.text("text"), "ok")
        self.assertIn("Content-Length: 2\n", self.text("headers"))

    def test_streamed(self) -> None:
        """Callbacks get the head of the last answer and the parts of its body."""
        lines: list[str] = []
        parts: list[bytes] = []

        found = self.query(
            "/go?302,/big",
            streaming_callback=parts.append,
            header_callback=lines.append,
            stream=True,
        )

        self.assertEqual(b"".join(parts), b"x" * 5000)
        self.assertEqual([lines[0], lines[-1]], ["HTTP/1.0 200 OK\r\n", "\r\n"])
        self.assertEqual(found["body"], b"")

    def test_dry(self) -> None:
        """A test asks nobody, or the address for tests."""
        self.assertEqual(self.http.query("http://127.0.0.1:1/", test=True), {})
        found = self.http.query("http://x/", test=True, test_url=f"http://{self.base}/")
        self.assertEqual(found, {"test": True, "body": "ok"})

    def test_wait(self) -> None:
        """Waiting ends with the first good answer, or with the last bad one."""
        good = f"http://{self.base}/"
        self.assertEqual(self.http.wait_for_successful_query(good), {"body": "ok"})
        found = self.http.wait_for_successful_query(f"{good}404", wait_for=0)
        self.assertEqual(found["status"], 404)
        wait = self.http.wait_for_successful_query
        self.assertRaises(CommandExecutionError, wait, "ftp://x", wait_for=0)

    def test_bundle(self) -> None:
        """Authorities are fetched, more are appended, and a failure changes nothing."""
        target, more = self.file("ca", "old"), self.file("more", "mine")
        self.http.update_ca_bundle(target, f"http://{self.base}/404", more)
        self.assertEqual(self.text("ca"), "old")
        self.http.update_ca_bundle(target, f"http://{self.base}/", [more, "/nonexistent"])
        self.assertEqual(self.text("ca"), "ok\n\nmine")

    def test_trust(self) -> None:
        """A certificate is verified, by the authorities that are named, unless it is not to be."""
        cert = self.certificate()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert)
        base = self.serve(lambda sock: context.wrap_socket(sock, server_side=True))
        url = f"https://{base}/"

        self.assertIn("CERTIFICATE_VERIFY_FAILED", self.http.query(url)["error"])
        self.assertEqual(self.http.query(url, verify_ssl=False), {"body": "ok"})
        self.assertEqual(self.http.query(url, ca_bundle=cert), {"body": "ok"})
        other = self.http.query(url.replace("127.0.0.1", "localhost"), ca_bundle=cert)
        self.assertIn("CERTIFICATE_VERIFY_FAILED", other["error"])

    def certificate(self) -> str:
        """A certificate of C{127.0.0.1}, with its key."""
        import datetime
        import ipaddress

        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        cert = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
            .not_valid_after(datetime.datetime(2049, 1, 1, tzinfo=datetime.UTC))
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        text = cert.public_bytes(pem) + key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self.file("cert.pem", text.decode())
