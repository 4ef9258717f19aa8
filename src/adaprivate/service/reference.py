"""The reference for people, /docs: one page made of the OpenAPI document, without scripts or other resources."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #2463b0; }
@media (prefers-color-scheme: dark) { :root { --accent: #8ab8ee; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; } summary code { font-weight: 600; }
summary b { color: var(--accent); font-family: ui-monospace, monospace; }
pre { background: var(--soft); border-radius: 6px; padding: .6rem; overflow: auto; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid var(--line); padding: .25rem .5rem .25rem 0; text-align: left; vertical-align: top; }
small { opacity: .75; } a { color: var(--accent); }
"""
SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
Document = Mapping[str, Any]


def page(document: Document) -> bytes:
    """The page."""
    info = document["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style>",
        f"<h1>{escape(info['title'])}</h1><small>{escape(info['version'])} &middot; ",
        "<a href=openapi.json>openapi.json</a> &middot; <a href=./>dashboard</a></small>",
        *(f"<p>{_text(paragraph)}</p>" for paragraph in info["description"].split("\n\n")),
    ]
    for tag, operations in _by_tag(document).items():
        parts.append(f"<h2>{escape(tag)}</h2>")
        parts += [_operation(document, *one) for one in operations]
    parts.append("<h2>documents</h2>")
    parts += [_schema(document, name, schema) for name, schema in document["components"]["schemas"].items()]
    return "\n".join(parts).encode()


def _by_tag(document: Document) -> dict[str, list[tuple[str, str, Document]]]:
    found: dict[str, list[tuple[str, str, Document]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            found.setdefault(operation["tags"][0], []).append((path, method, operation))
    return found


def _operation(document: Document, path: str, method: str, operation: Document) -> str:
    lines = [
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> {escape(operation['summary'])}</summary>"
    ]
    lines.append(f"<p>{_text(operation.get('description', ''))} <small>Scope: {escape(operation['x-scope'])}.</small></p>")
    given = [(one["name"], one["schema"], one.get("description", "")) for one in operation.get("parameters", [])]
    if given:
        lines.append(f"<table>{''.join(_row(name, schema, text) for name, schema, text in given)}</table>")
    for media in operation.get("requestBody", {}).get("content", {}).values():
        example = json.dumps(_example(document, media["schema"]), indent=2)
        lines.append(f"<p>Body: {_type(media['schema'])}</p><pre>{escape(example)}</pre>")
    answers = "".join(
        f"<tr><td>{status}<td>{escape(answer['description'])}<td>{' '.join(_answered(answer))}"
        for status, answer in sorted(operation["responses"].items())
    )
    lines.append(f"<p>Answers</p><table>{answers}</table></details>")
    return "".join(lines)


def _answered(answer: Document) -> Iterator[str]:
    for media_type, media in answer.get("content", {}).items():
        yield _type(media["schema"]) if "json" in media_type else escape(media_type)


def _schema(document: Document, name: str, schema: Document) -> str:
    needed = schema.get("required", ())
    rows = "".join(
        _row(field, about, about.get("description", "") + ("" if field in needed else _default(about)))
        for field, about in schema.get("properties", {}).items()
    )
    inside = f"<table>{rows}</table>" if rows else f"<p>{_type(schema)}</p>"
    heading = f"<summary><code>{escape(name)}</code></summary><p>{_text(schema.get('description', ''))}</p>"
    return f"<details id='{escape(name)}'>{heading}{inside}</details>"


def _row(name: str, schema: Document, text: str) -> str:
    return f"<tr><td><code>{escape(name)}</code><td>{_type(schema)}<td>{_text(text)}"


def _default(schema: Document) -> str:
    return f" (default {json.dumps(schema['default'])})" if schema.get("default") is not None else " (may be left out)"


def _type(schema: Document) -> str:
    """What kind of value a schema describes, with links."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"<a href='#{escape(name)}'>{escape(name)}</a>"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[several]))
    if "enum" in schema or "const" in schema:
        return " or ".join(escape(json.dumps(one)) for one in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    bounds = [f"{sign} {schema[word]:g}" for word, sign in _BOUNDS if word in schema]
    return escape(" ".join([kind, *bounds]))


_BOUNDS = (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"))


def _example(document: Document, schema: Document) -> Any:
    """What somebody could send."""
    if "$ref" in schema:
        return _example(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if schema.get("examples"):
        return schema["examples"][0]
    if "properties" in schema:
        fields = schema["properties"].items()
        shown = {name: about for name, about in fields if name in schema.get("required", ()) or about.get("examples")}
        found = {name: _example(document, about) for name, about in shown.items()}
        return {name: value for name, value in found.items() if value not in (None, {})}
    if schema.get("type") == "array":
        return [_example(document, schema["items"])]
    return schema.get("default")


def _text(text: str) -> str:
    """A sentence in which `code` stands between backticks."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
