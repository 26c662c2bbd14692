"""
The meaning of a chunk of low state: which operation of the master it calls, with which arguments,
and how the result is shown. The words are those of Salt's C{NetapiClient} and of the clients that
it calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from attrs import field, frozen

from saltwisted import advice
from saltwisted.domain.api.problems import Problem
from saltwisted.domain.arguments import TEXT, read_input, split_words, yaml_weight
from saltwisted.domain.events import rough_weight

CLIENTS = (
    "local",
    "local_async",
    "local_batch",
    "local_subset",
    "runner",
    "runner_async",
    "ssh",
    "wheel",
    "wheel_async",
)
"""The names that C{netapi_enable_clients} may have."""
WHEEL = ("wheel", "wheel_async")
LOCAL = ("local", "local_async", "local_batch", "local_subset")
PROOF = ("token", "eauth", "username", "password")
"""What says in a chunk who sends it."""
NOT_ARGUMENTS = frozenset(
    (*PROOF, "client", "fun", "arg", "kwarg", "full_return", "timeout", "user", "key",
     "print_event", "raw_shell")
)  # fmt: skip
"""Keys of a chunk for a runner or the wheel that are not keywords of the function."""
HANDED_ON = (
    "delimiter",
    "metadata",
    "ret_config",
    "ret_kwargs",
    "module_executors",
    "executor_opts",
    "generation",
)
"""Keys of a chunk for minions that go with the job."""
_HEX = re.compile(r"[0-9a-fA-F]{1,512}")
SSH_TEXT = "Client not available: 'ssh'. saltwisted has no salt-ssh."
DROPPED = "dropped"
"""Where the result of a runner names keywords that it was called without."""
MEANT = 1024 * 1024
"""About so many bytes the YAML in arguments may mean, whose aliases may repeat each other."""
SUBSET = 3
BATCH = "10%"


@frozen(kw_only=True)
class Work:
    """
    One parsed chunk.

    @ivar client: the name of Salt's client.
    @ivar args: the arguments of the operation.
    @ivar proof: the login, if the chunk itself contains it.
    @ivar full: whether results are wanted in full.
    @ivar timeout: seconds that the caller of a runner waits.
    @ivar size: the size of a batch or a subset.
    """

    client: str
    args: dict[str, Any] = field(repr=False)
    proof: Mapping[str, Any] = field(factory=dict, repr=False)
    full: bool = False
    timeout: float | None = None
    size: Any = None


def disabled(client: str) -> str:
    """The text about a client that the master does not offer."""
    return (
        f"Client disabled: '{client}'. Add to 'netapi_enable_clients' master config option to"
        " enable."
    )


def token_word(value: Any) -> str:
    """
    A token as a chunk has it.

    @raises Problem: C{401}, it is none.
    """
    if not isinstance(value, str) or _HEX.fullmatch(value) is None:
        raise Problem(401, "Invalid token")
    return value


def understand(
    chunk: Mapping[str, Any], enabled: Collection[Any], raw_shell: bool, token: str = ""
) -> Work:
    """
    What a chunk asks for.

    @param enabled: the clients that C{netapi_enable_clients} names.
    @param token: of the session, which counts before what the chunk says.
    @raises Problem: it asks for nothing that is here.
    """
    proof: Mapping[str, Any] = {"token": token} if token else _proof(chunk)
    client = chunk.get("client")
    if client not in CLIENTS:
        raise Problem(400, f"Invalid client specified: '{str(client)[:100]}'")
    if client not in enabled:
        raise Problem(400, disabled(client))
    if not proof:
        raise Problem(401, "No authentication credentials given")
    if chunk.get("raw_shell") and not raw_shell:
        raise Problem(401, "Raw shell option not allowed.")
    if client == "ssh":
        raise Problem(400, SSH_TEXT)
    if not isinstance(chunk.get("fun"), (str, list)) or not chunk["fun"]:
        raise Problem(400, "A lowstate needs 'fun', the name of a function")
    make = _for_minions if client in LOCAL else _for_master
    return make(str(client), chunk, proof)


def _proof(chunk: Mapping[str, Any]) -> dict[str, Any]:
    if "token" in chunk:
        return {"token": token_word(chunk["token"])}
    if "eauth" in chunk:
        return {name: chunk.get(name) for name in ("eauth", "username", "password")}
    return {}


def _arguments(chunk: Mapping[str, Any]) -> list[Any]:
    """Whatever is no list is one argument, C{None} and C{""} too."""
    arg = chunk.get("arg", ())
    return list(arg) if isinstance(arg, (list, tuple)) else [arg]


def _keywords(chunk: Mapping[str, Any]) -> dict[str, Any]:
    kwarg = chunk.get("kwarg")
    if kwarg is None or kwarg == "":
        return {}
    if not isinstance(kwarg, Mapping) or not all(isinstance(key, str) for key in kwarg):
        raise Problem(400, "kwarg must be formatted as a dictionary")
    return dict(kwarg)


def _seconds(value: Any) -> float | None:
    if value is None or value == "":
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise Problem(400, f"timeout must be a number of seconds, not {str(value)[:50]!r}")
    return seconds


def _for_minions(client: str, chunk: Mapping[str, Any], proof: Mapping[str, Any]) -> Work:
    if chunk.get("tgt") in (None, "", []):
        raise Problem(400, "A lowstate for minions needs 'tgt', the target")
    kwarg = _keywords(chunk)
    arg = _arguments(chunk)
    if kwarg:
        arg.append({"__kwarg__": True, **kwarg})
    # The old name; pepper's library still sends it
    tgt_type = chunk.get("tgt_type") or chunk.get("expr_form") or "glob"
    args: dict[str, Any] = {
        "tgt": chunk["tgt"],
        "tgt_type": tgt_type,
        "fun": chunk["fun"],
        "arg": arg,
        "ret": chunk.get("ret") or "",
        "kwargs": {name: chunk[name] for name in HANDED_ON if chunk.get(name) is not None},
    }
    if chunk.get("jid"):
        args["jid"] = chunk["jid"]
    timeout = _seconds(chunk.get("timeout"))
    gather = _seconds(chunk.get("gather_job_timeout"))
    if client != "local_async":
        args.update({"timeout": timeout, "gather_job_timeout": gather})
    size = None
    if client == "local_subset":
        size = _size(chunk.get("subset"), chunk.get("sub"), SUBSET)
    elif client == "local_batch":
        size = _size(chunk.get("batch"), None, BATCH)
    return Work(
        client=client, args=args, proof=proof, full=bool(chunk.get("full_return")), size=size
    )


def _size(given: Any, old: Any, usual: Any) -> Any:
    size = given if given not in (None, "") else old
    return usual if size in (None, "") else size


def _for_master(client: str, chunk: Mapping[str, Any], proof: Mapping[str, Any]) -> Work:
    fun = chunk["fun"]
    if not isinstance(fun, str):
        raise Problem(400, "A lowstate needs 'fun', the name of a function")
    given = _arguments(chunk)
    if yaml_weight(given) > TEXT:
        raise Problem(400, f"Arguments in brackets may have {TEXT} characters; send a kwarg")
    # As stock's clients: that of the wheel sends text as it is
    arg, kwarg = split_words(given) if client in WHEEL else read_input(given, jids_are_text=False)
    if rough_weight([arg, kwarg]) > MEANT and rough_weight(given) <= MEANT:
        raise Problem(400, "Arguments that are YAML mean too much")
    kwarg.update(_keywords(chunk))
    kwarg.update({key: value for key, value in chunk.items() if key not in NOT_ARGUMENTS})
    return Work(
        client=client,
        # As in stock, what the function does not take is no reason to refuse it
        args={"fun": fun, "arg": arg, "kwarg": kwarg, "loose": True},
        proof=proof,
        full=bool(chunk.get("full_return")),
        timeout=_seconds(chunk.get("timeout")),
    )


# -- how results are shown


def shown_return(data: Mapping[str, Any], full: bool) -> Any:
    """One minion's return, as C{local} shows it."""
    if not full:
        return data.get("return")
    found = {key: data[key] for key in ("jid", "retcode", "out") if key in data}
    return {"ret": data.get("return"), **found}


def shown_silence(jid: str, connected: bool, full: bool) -> Any:
    """
    The value for a minion that did not answer: never something that a minion might have returned.
    """
    text = "Minion did not return. [Not connected]"
    if connected:
        text = f"Minion did not return. [No response]\n{advice.of('job.lookup', jid=jid)}"
    return {"out": "no_return", "ret": text, "retcode": 1} if full else text


def bad_batch(size: Any) -> str:
    """The text about a batch that is not a number."""
    return (
        f"Invalid batch specification {str(size)[:50]!r}: must be an integer or percentage"
        " string like '10' or '25%'."
    )


def shown_runner(result: Mapping[str, Any], full: bool, asked: Mapping[str, Any]) -> Any:
    """
    The result of a runner.

    @raises Problem: C{400}, the runner does not exist.
    """
    check_there(result)
    if not full:
        return result.get("return")
    data = {key: value for key, value in plain_result(result).items() if key != "tag"}
    if not str(asked["fun"]).startswith("auth."):
        dropped = {*result.get(DROPPED, ())}
        kwarg = {name: value for name, value in asked["kwarg"].items() if name not in dropped}
        data["fun_args"] = [*asked["arg"], *([kwarg] if kwarg else [])]
    return {"tag": f"{result.get('tag')}/ret", "data": data}


def shown_wheel(result: Mapping[str, Any]) -> dict[str, Any]:
    """
    The result of a wheel function.

    @raises Problem: C{400}, the function does not exist.
    """
    check_there(result)
    return {"tag": result.get("tag"), "data": plain_result(result)}


def plain_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result as its event has it."""
    return {
        key: value for key, value in result.items() if key not in ("retcode", "outputter", DROPPED)
    }


def check_there(result: Mapping[str, Any]) -> None:
    """
    Refuse the result of a missing function.

    @raises Problem: C{400} with its name.
    """
    name = str(result.get("fun")).partition(".")[2]
    if result.get("success") is False and result.get("return") == f"'{name}' is not available.":
        raise Problem(400, f"'{name[:200]}' is not available.")
