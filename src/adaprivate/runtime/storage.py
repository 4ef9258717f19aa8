"""How a policy is stored: as bytes and back, and in files that are continued once.

Files are written whole or not at all, for the owner's eyes only. Beside a saved file a lease, a little file of its own,
says that somebody goes on from it. Whoever would draw noise takes the lease first, the policy that saved included; so of
all who could release the next batch of a file, one does. A lease goes with its file: when that is replaced, nobody can
take it any more. Copies made by hand are seen while the lease of the same save stands beside them, and not once it has
gone with its file: keep no old ones.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adaprivate import check, policies
from adaprivate.mechanisms import Secure, packing
from adaprivate.mechanisms.book import Told
from adaprivate.runtime.decision import Decision, Open, Origin

_MAGIC = b"adaprivate policy 2\n"
_COUNTERS = ("reward_window", "logs_propensities", "decided", "round", "version", "clipped")


def packed(policy: Any, saved: str) -> bytes:
    """Everything that a policy is, the open decisions too: private. ``saved`` names this copy."""
    stored = {
        "policy": policy.settings.name,
        "settings": dataclasses.asdict(policy.settings),
        "exact": policy.source is not None,
        "saved": saved,
        "reward_range": list(policy.reward_range),
        "id": policy._origin.id,
        "key": policy._origin._key.hex(),
        **{name: getattr(policy, name) for name in _COUNTERS},
        "open": [
            [*e.decision[:4], e.features, e.reward, type(e.reward) is Told, e.decision.origin.life, e.person]
            for e in policy._open.values()
        ],
        "parts": policy._engine.parts(),
    }
    return _MAGIC + packing.to_bytes(stored)


def unpacked(data: bytes) -> dict[str, Any]:
    """The values that :func:`packed` wrote."""
    check.expect(data[: len(_MAGIC)] == _MAGIC, "data", "something else", "to begin as saved policies do")
    stored = packing.from_bytes(data[len(_MAGIC) :])
    check.expect(isinstance(stored, dict), "data", type(stored).__name__, "to be a saved policy")
    return dict(stored)


def restored(kind: type[Any], stored: dict[str, Any]) -> Any:
    """The policy, of this class, that these values describe."""
    try:
        values = stored["settings"]
        if values.get("theta_0") is not None:
            values["theta_0"] = tuple(values["theta_0"])
        exact = bool(stored["exact"])
        policy = kind(
            policies.settings(stored["policy"], values),
            seed=None if exact else check.whole("seed", stored["parts"]["seed"]),
            source=Secure() if exact else None,
            reward_window=stored["reward_window"],
            propensities=stored["logs_propensities"],
            reward_range=tuple(stored.get("reward_range", (0.0, 1.0))),
        )
        policy._engine.restore(stored["parts"])
        for name in ("decided", "round", "version", "clipped"):
            setattr(policy, name, check.whole(name, stored[name], at_least=0))
        policy._look_ahead(policy._engine)
        policy._engine.opened(policy.decided - policy.round)  # whatever was chosen and not made when it was saved
        policy._origin = Origin(str(stored["id"]), bytes.fromhex(stored["key"]))
        for action, version, propensity, number, features, reward, told, life, *person in stored["open"]:
            vector = check.floats("open", features, (policy.settings.dimension,))
            origin = Origin(policy._origin.id, policy._origin._key, str(life))
            decision = Decision(action, version, propensity, number, vector.copy(), origin)
            policy._open[number] = Open(
                decision, vector, int(person[0]) if person else -1, Told(reward) if told else reward
            )
        return policy
    except check.InputError:
        raise
    except Exception as error:  # whatever a damaged file lacks
        raise check.InputError(f"Expected data to be whole ({type(error).__name__}).") from None


# --- files ------------------------------------------------------------------------------------------------------------


def write_private(path: Path, data: bytes, before: Callable[[], None] = lambda: None) -> None:
    """Replace the file by this content, readable and writable by its owner alone; ``before`` is called just before."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        before()
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


class Lease:
    """The right to go on from one saved file, at an absolute path. Copies of it in the same folder share the lease."""

    def __init__(self, path: Path, saved: str) -> None:
        self.path, self.saved = path, saved
        self.file = path.with_name(f"{saved}.lease")
        self.held = False
        self._drew = False
        self._how = ""
        self._key = secrets.token_hex(8)
        """Tells this object's lease from one that another put in its place."""

    def take(self, how: str) -> None:
        """Take the lease unless this object holds it; refused if anyone else does, or may have drawn noise and died."""
        if self.held:
            return
        self._how = how
        self._remove_if_left_behind()
        try:
            with open(os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump({**_note(how), "key": self._key}, file)
        except FileExistsError:
            raise self._refusal() from None
        except FileNotFoundError:
            raise self._gone() from None
        self.held = True
        if not self.stands():
            self.drop()
            raise self._gone()

    def draws(self) -> None:
        """Note, once, that noise is drawn: from now on the file must not be continued by anyone else.

        Until then the lease may have been removed, by hand or by one who could not see this process, and taken again.
        """
        if self._drew:
            return
        if not self.file.exists():
            self.held = False
            self.take(self._how)
        note = _read(self.file)
        if self.file.exists():
            if note.get("key") != self._key:
                self.held = False
                raise self._refusal()
            write_private(self.file, json.dumps({**note, "drew": True}).encode())
        self._drew = True

    def expect_free(self) -> None:
        """Raise if somebody else holds the lease."""
        if not self.held and self.file.exists():
            raise self._refusal()

    def _remove_if_left_behind(self) -> None:
        """Remove the lease of a process of this machine that died before it drew any noise: nothing was released."""
        note = _read(self.file)
        here = note.get("machine") == socket.gethostname() and note.get("drew") is False
        if here and _started(note.get("process")) not in ("", note.get("started")):
            aside = self.file.with_name(f"{self.file.name}.{secrets.token_hex(4)}.part")
            try:
                self.file.rename(aside)  # of several who try, one succeeds
                aside.unlink()
            except FileNotFoundError:
                pass

    def stands(self) -> bool:
        """Whether the file in its place is the one this lease is for; another's lease may have been taken and dropped."""
        try:
            return bool(unpacked(self.path.read_bytes()).get("saved") == self.saved)
        except (OSError, check.InputError):
            return False

    def _gone(self) -> check.InputError:
        return check.InputError(
            f"Expected {str(self.path)!r} to be the file that was saved: it has been moved, removed or replaced since, and "
            "whoever did that may have gone on from it. A batch released twice is paid for twice. Put it back, or load "
            "what stands there and go on from that."
        )

    def _refusal(self) -> check.InputError:
        note = _read(self.file)
        for _ in range(20):  # whoever took it at this moment is about to write who it is
            if note or not self.file.exists():
                break
            time.sleep(0.005)
            note = _read(self.file)
        gone = note.get("machine") == socket.gethostname() and _started(note.get("process")) not in (
            "",
            note.get("started"),
        )
        alive = ", which no longer runs" if gone else ""
        process = f"process {note.get('process')} on {note.get('machine')}{alive}, {note.get('at')}"
        who = f"{note.get('by', 'somebody')} ({process})"
        did = "and has drawn noise since" if note.get("drew") else "and has drawn no noise yet"
        return check.InputError(
            f"Expected {str(self.path)!r} to be continued once: {who} goes on from it, {did}. A batch released twice is "
            "paid for twice. Let that one save again, and load what it saved. If it is gone: where nobody saw what it "
            f"released, remove {str(self.file)!r}; else start a new policy, with a budget of its own."
        )

    def drop(self) -> None:
        """Forget the lease: the file is replaced."""
        if self.held:
            self.file.unlink(missing_ok=True)
            self.held = False


def _note(how: str) -> dict[str, Any]:
    """Who holds a lease."""
    me = os.getpid()
    at = time.strftime("%Y-%m-%d %H:%M:%S")
    return {"by": how, "process": me, "started": _started(me), "machine": socket.gethostname(), "at": at, "drew": False}


def _read(file: Path) -> dict[str, Any]:
    try:
        note = json.loads(file.read_text())
        return note if isinstance(note, dict) else {}
    except (OSError, ValueError):
        return {}


def _started(process: object) -> str | None:
    """When a process of this machine began, in the system's own units; empty if unknown, None if there is none."""
    try:
        return Path(f"/proc/{int(str(process))}/stat").read_text().rpartition(")")[2].split()[19]
    except ValueError:
        return None
    except OSError:  # no such process, or no such folder: then it is asked whether it lives
        try:
            os.kill(int(str(process)), 0)
        except ProcessLookupError:
            return None
        except OSError:  # it lives, and is somebody else's
            return ""
        return ""


class Stored:
    """Where a policy is stored, and whether this process may go on with it. With exact noise, one process may."""

    def __init__(self, *, exact: bool) -> None:
        self._exact = exact
        self._process = os.getpid()
        self.lease: Lease | None = None
        """That of the file last saved or loaded, for exact noise."""

    def expect_alone(self) -> None:
        """Raise where another goes on in place of this policy: a forked process, or whoever loaded its file."""
        if not self._exact:
            return
        if self._process != os.getpid():
            raise check.InputError(
                "Expected a policy with exact noise to stay in the process that made it: after a fork both would release "
                "the same batch. Make or load it in the one process that shall go on."
            )
        if self.lease is not None:
            self.lease.expect_free()

    def claim(self) -> None:
        """Before noise is drawn: nobody else may go on from the file that was saved last."""
        self.expect_alone()
        if self.lease is not None:
            self.lease.take("the policy that saved it")
            self.lease.draws()

    def save(self, target: Path, pack: Callable[[str], bytes]) -> None:
        """Replace the file at this absolute path. ``pack``: the bytes of the policy, under the name of this copy."""
        lease, older = Lease(target, secrets.token_hex(8)), self.lease

        def hand_over() -> None:
            """Now nobody goes on from the older file, nor this policy without the new lease."""
            self.claim()
            self.lease = lease if self._exact else None

        try:
            write_private(target, pack(lease.saved), hand_over)
        except BaseException:
            if not lease.stands():  # the older file is still the last one
                self.lease = older
            raise
        if older is not None and older.path == target:
            older.drop()

    def loaded(self, path: Path, saved: str) -> None:
        """Go on from this file, under the name of its copy, if nobody else does."""
        if self._exact:
            self.lease = Lease(path.resolve(), saved)
            self.lease.take("the process that loaded it")
