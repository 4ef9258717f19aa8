"""The dashboard and the browser's client, as the bytes that are served: one page without other resources, one script.

Nothing here touches a reward: the page asks the service for released statistics and public counts, as any reader may.
The page is put together once, from the files beside this one: no build step, and no file but these.
"""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

_folder = Path(__file__).parent


def _text(name: str) -> str:
    return (_folder / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_style = _text("style.css")
_script = "".join(_text(name) for name in ("words.js", "chart.js", "sections.js", "page.js"))
if "</style" in _style or "</script" in _script or "<!--" in _script:
    raise RuntimeError("Expected style and script of the page to hold no tag that would end them.")

INDEX: bytes = (
    _text("index.html")
    .replace("<style></style>", f"<style>{_style}</style>", 1)
    .replace("<script></script>", f"<script>{_script}</script>", 1)
    .encode()
)
"""The dashboard: one HTML page, its style and its script inside."""

CLIENT: bytes = _text("client.js").encode()
"""What web pages load to ask for decisions and to report rewards."""

SECURITY_POLICY: str = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_hash(_script)}",
        f"style-src {_hash(_style)}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""The Content-Security-Policy to send with INDEX: its own script and style by their hashes, and nothing else."""
