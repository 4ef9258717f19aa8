"""A real headless Chromium, driven by the DevTools protocol over two pipes: no package is needed for it.

``--remote-debugging-pipe`` makes Chromium read commands from file descriptor 3 and write answers and events to 4, JSON
between NUL bytes. What leaves a page is read from the browser's own Network events, never from the server under test.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.programs import BROWSER

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--no-proxy-server",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Puts the two pipes where Chromium looks for them, then becomes Chromium.
BECOME = (
    "import fcntl, os, sys\n"
    "ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]\n"
    "os.dup2(ends[0], 3), os.dup2(ends[1], 4)\n"
    "os.closerange(5, 256)\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)


class Browser:
    """One Chromium with a folder of its own, gone when closed."""

    def __init__(self) -> None:
        program = BROWSER.need()
        self._folder = tempfile.mkdtemp(prefix="adaprivate-chromium-")
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        for end in (commands, answers):
            os.set_inheritable(end, True)
        self._process = subprocess.Popen(
            [sys.executable, "-c", BECOME, str(commands), str(answers), program, *FLAGS, f"--user-data-dir={self._folder}"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._folder, "TZ": "UTC", "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        fcntl.fcntl(self._write, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._listeners: dict[str, Callable[[str, dict[str, Any]], None]] = {}
        self._news = threading.Condition()
        self._writing = threading.Lock()
        self._ended = False
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        self.send("Browser.getVersion")

    def _listen(self) -> None:
        rest = b""
        while chunk := os.read(self._read, 1 << 16):
            *messages, rest = (rest + chunk).split(b"\0")
            for text in messages:
                message = json.loads(text)
                with self._news:
                    if "id" in message:
                        self._answers[message["id"]] = message
                    elif (listener := self._listeners.get(message.get("sessionId", ""))) is not None:
                        listener(message["method"], message["params"])
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def send(self, method: str, session: str | None = None, timeout: float = 60.0, **parameters: Any) -> dict[str, Any]:
        """One command and its answer."""
        with self._news:
            self._number += 1
            number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        with self._writing:
            while data:
                data = data[os.write(self._write, data) :]
        with self._news:
            if not self._news.wait_for(lambda: number in self._answers or self._ended, timeout):
                raise TimeoutError(f"Chromium did not answer {method} within {timeout:g} s.")
            if number not in self._answers:
                raise RuntimeError(f"Chromium ended before it answered {method}.")
            answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def page(self, **settings: Any) -> Page:
        """A blank page that shares nothing with any other."""
        return Page(self, **settings)

    def close(self) -> None:
        try:
            self.send("Browser.close", timeout=10)
            self._process.wait(10)
        except (TimeoutError, RuntimeError, OSError, subprocess.TimeoutExpired):
            os.killpg(self._process.pid, signal.SIGKILL)  # a session of its own: this Chromium and what it started
            self._process.wait()
        os.close(self._write)
        self._reader.join(10)
        os.close(self._read)
        shutil.rmtree(self._folder, ignore_errors=True)


class Page:
    """A tab: what it shows, what it sent, what it complained about."""

    def __init__(self, browser: Browser, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        self._browser = browser
        self._context = browser.send("Target.createBrowserContext")["browserContextId"]
        target = browser.send("Target.createTarget", url="about:blank", browserContextId=self._context)["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.requests: list[dict[str, Any]] = []
        """What left the page: url, method, headers, body (text or None), by the browser's own account."""
        self.complaints: list[str] = []
        """Errors and warnings of the console, exceptions nobody caught, what a security policy blocked."""
        self._paused: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._meddler: threading.Thread | None = None
        browser._listeners[self._session] = self._heard
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Network.enable", maxPostDataSize=1 << 16)
        self.look(width=width, height=height, dark=dark)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.send(method, self._session, **parameters)

    def _heard(self, method: str, event: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            request = event["request"]
            entries = request.get("postDataEntries") or []
            body = b"".join(base64.b64decode(entry.get("bytes", "")) for entry in entries).decode() if entries else None
            kept = {"url": request["url"], "method": request["method"], "headers": request["headers"], "body": body}
            self.requests.append({**kept, "at": event["timestamp"], "has_body": request.get("hasPostData", False)})
        elif method == "Fetch.requestPaused":
            self._paused.put(event)
        elif method == "Runtime.exceptionThrown":
            detail = event["exceptionDetails"]
            self.complaints.append(detail.get("exception", {}).get("description") or detail["text"])
        elif method == "Runtime.consoleAPICalled" and event["type"] in {"error", "warning", "assert"}:
            self.complaints.append(" ".join(str(part.get("value", part.get("description"))) for part in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] in {"error", "warning"}:
            entry = event["entry"]
            self.complaints.append(f"{entry['text']} {entry.get('url', '')}".strip())

    def look(
        self, *, width: int = 1200, height: int = 900, dark: bool = False, scale: float = 1, phone: bool = False
    ) -> None:
        """Set the window's size, and light or dark."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.send("Emulation.setEmulatedMedia", features=[theme, still])

    def meddle(self, pattern: str, fails: Callable[[str, str], bool], *, answered: bool = False) -> None:
        """Cut the wire for requests to addresses like ``pattern`` where ``fails(method, url)``.

        ``answered``: on the way back, when the service has had its say.
        """
        stage = "Response" if answered else "Request"
        self.send("Fetch.enable", patterns=[{"urlPattern": pattern, "requestStage": stage}])

        def work() -> None:
            while (event := self._paused.get()) is not None:
                if fails(event["request"]["method"], event["request"]["url"]):
                    self.send("Fetch.failRequest", requestId=event["requestId"], errorReason="ConnectionReset")
                else:
                    self.send("Fetch.continueRequest", requestId=event["requestId"])

        self._meddler = threading.Thread(target=work, daemon=True)
        self._meddler.start()

    def open(self, url: str, timeout: float = 30) -> None:
        """Go there and wait until it is loaded."""
        answer = self.send("Page.navigate", url=url)
        if answer.get("errorText"):
            raise RuntimeError(f"{url}: {answer['errorText']}")
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'", timeout)

    def run(self, expression: str, timeout: float = 120) -> Any:
        """The value of a JavaScript expression, awaited."""
        answer = self._browser.send(
            "Runtime.evaluate",
            self._session,
            timeout,
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in answer:
            detail = answer["exceptionDetails"]
            raise AssertionError(detail.get("exception", {}).get("description") or detail["text"])
        return answer["result"].get("value")

    def wait(self, expression: str, timeout: float = 30) -> None:
        """Until an expression is true; an error that shows the page if it is not in time."""
        end = time.monotonic() + timeout
        while True:
            try:
                value = self.run(f"Boolean({expression})")
            except RuntimeError as error:  # between two documents there is no context to ask
                if "context" not in str(error).lower() and "navigated" not in str(error).lower():
                    raise
                value = None
            if value:
                return
            if time.monotonic() > end:
                text = self.run("document.body ? document.body.innerText : ''")
                raise AssertionError(f"Not so within {timeout:g} s: {expression}\n{self.complaints}\n{text}")
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """A real click of the mouse in the middle of an element."""
        where = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", clickCount=1)

    def hover(self, x: float, y: float) -> None:
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        """One key, by its name: Tab, Enter, ArrowLeft."""
        code = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, " ": 32}[key]
        text = {"Enter": "\r", " ": " "}.get(key)
        more = {"text": text} if text else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, path: Path, whole: bool = True) -> Path:
        """A screenshot as PNG, of the whole page or of the window."""
        parameters: dict[str, Any] = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            parameters["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", **parameters)["data"]))
        return path

    def close(self) -> None:
        if self._meddler is not None:
            self.send("Fetch.disable")
            self._paused.put(None)
            self._meddler.join(10)
        self._browser.send("Target.disposeBrowserContext", browserContextId=self._context)
        self._browser._listeners.pop(self._session, None)


@contextmanager
def browsing() -> Iterator[Browser]:
    """A Chromium for a while."""
    browser = Browser()
    try:
        yield browser
    finally:
        browser.close()
