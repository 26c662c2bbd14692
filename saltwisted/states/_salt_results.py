"""
What the answers of minions and runners mean for an orchestration; nothing here is asked of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

LONGEST = 200
"""Characters of a state's comment in that of a step."""


def succeeded(answer: Any) -> bool:
    """Whether every state of a run went well, also in runs inside of it; an empty run did not."""
    if not isinstance(answer, Mapping) or not answer:
        return False
    for one in answer.values():
        if not isinstance(one, Mapping):
            continue
        if "result" in one:
            if one["result"] is False:
                return False
        elif not succeeded(one):
            return False
    return True


def expected_failures(given: Any, ret: dict[str, Any]) -> list[str]:
    """The minions that may fail: a list, or a text with commas."""
    if given is None:
        return []
    if isinstance(given, str):
        return [one.strip() for one in given.split(",")]
    if isinstance(given, list):
        return given
    ret.setdefault("warnings", []).append(
        "'fail_minions' needs to be a list or a comma separated string. Ignored."
    )
    return []


def failure(minion: str, answer: Any, silent: bool) -> str:
    """Why a minion's run counts as failed; nothing where its states tell themselves."""
    if silent:
        return f"Minion {minion} did not return a state result."
    if isinstance(answer, (list, tuple)):
        texts = [str(one) for one in answer if one]
        if not texts:
            return f"Minion {minion} returned an empty error list."
        return f"Minion {minion} returned errors: {'; '.join(texts)}"
    if isinstance(answer, Mapping):
        return ""
    return f"Minion {minion} returned {answer!r} instead of a state result."


def first_failed(answer: Any) -> str:
    """The id of the state of a run that failed first, its function, and a line of its comment."""
    if not isinstance(answer, Mapping):
        return ""
    bad = [
        (one.get("__run_num__", 0), str(tag), one)
        for tag, one in answer.items()
        if isinstance(one, Mapping) and one.get("result") is False
    ]
    if not bad:
        return ""
    _, tag, one = min(bad, key=lambda each: each[:2])
    words = tag.split("_|-")
    function = f" ({words[0]}.{words[-1]})" if len(words) > 3 else ""
    lines = str(one.get("comment") or "").strip().splitlines()
    said = f": {lines[0][:LONGEST]}" if lines else ""
    return f"{one.get('__id__') or (words[1] if len(words) > 3 else tag)}{function}{said}"


def whereabouts(minion: str, data: Mapping[str, Any]) -> str:
    """
    The job of a minion that failed, its return code, and the state that failed first; nothing where
    the job is not known. Stock names the minion alone.
    """
    if not data.get("jid"):
        return ""
    words = [f"Minion {minion}: job {data['jid']}"]
    returned, answer = _value(data)
    if returned:
        words.append(f"retcode {data.get('retcode', 0)}")
        state = first_failed(answer)
        if state:
            words.append(f"first failed state {state}")
    return ", ".join(words)


def _value(data: Mapping[str, Any]) -> tuple[bool, Any]:
    """Whether a minion returned something, and what."""
    for key in ("ret", "return"):
        if key in data:
            return True, data[key]
    return False, False


@define
class StateRuns:
    """
    The runs of states on minions, sorted.

    @ivar changes: by minion, the run that changed something or failed.
    @ivar failed: why, by minion; without those that may fail.
    @ivar same: minions on which nothing changed.
    @ivar where: where to look, by minion that failed.
    """

    changes: dict[str, Any] = field(factory=dict)
    failed: dict[str, str] = field(factory=dict)
    same: list[str] = field(factory=list)
    where: dict[str, str] = field(factory=dict)

    @classmethod
    def sort(cls, answers: Mapping[str, Any], may_fail: Iterable[str]) -> StateRuns:
        """Sort the answers of C{saltutil.cmd}."""
        runs = cls()
        allowed = set(may_fail)
        for minion, data in answers.items():
            returned, answer = _value(data)
            if data.get("failed", False) or not returned or not succeeded(answer):
                if minion not in allowed:
                    runs.failed[minion] = failure(minion, answer, not returned)
                    runs.where[minion] = whereabouts(minion, data)
                runs.changes[minion] = False if data.get("failed", False) else answer
            elif any(isinstance(one, Mapping) and one.get("changes") for one in answer.values()):
                runs.changes[minion] = answer
            else:
                runs.same.append(minion)
        return runs

    def tell(self, ret: dict[str, Any], allow_fail: int) -> None:
        """Complete the return of a state."""
        if self.changes:
            ret["changes"] = {"out": "highstate", "ret": self.changes}
        if len(self.failed) > allow_fail:
            ret["result"] = False
            lines = [f"Run failed on minions: {', '.join(self.failed)}"]
            for told in (self.failed, self.where):
                lines += [told[one] for one in sorted(told) if told[one]]
            ret["comment"] = "\n".join(lines)
            return
        ret["comment"] = "States ran successfully."
        if self.changes:
            ret["comment"] += f" Updating {', '.join(self.changes)}."
        if self.same:
            ret["comment"] += f" No changes made to {', '.join(self.same)}."


def extracted_changes(value: Any) -> Any:
    """The changes inside of what a runner gave, wherever they are."""
    if not isinstance(value, Mapping):
        return {}
    if "changes" in value:
        changes = value["changes"]
        nested = isinstance(changes, Mapping) and changes.get("out") == "highstate"
        return changes["ret"] if nested and "ret" in changes else changes
    found = {key: extracted_changes(one) for key, one in value.items()}
    return {key: one for key, one in found.items() if one}


def seen(event: Mapping[str, Any], key: str) -> list[Any]:
    """The ids that an event's data name under a key."""
    data = event["data"]
    value = data.get(key)
    if value is None and isinstance(data.get("data"), Mapping):
        value = data["data"].get(key)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
