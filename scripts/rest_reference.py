"""Writes docs/reference/rest.md from the OpenAPI description of the REST API. `make docs` runs it."""  # noqa: INP001

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from foretide.dashboard.access import Access
from foretide.dashboard.api import create_api
from foretide.dashboard.reading import Reader
from foretide.status.sources import Sources

FILE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "rest.md"
MADE = "<!-- Made from the code by scripts/rest_reference.py: change the code, then run `make docs`. -->"
_INTRODUCTION = (
    "[Dashboard and REST API](../dashboard.md) has examples. `/api/v1/openapi.json` describes every answer in full. "
    'An answer other than 2xx is `{"error": ..., "message": ...}`.'
)
_BOUNDS = {
    "minimum": "at least {}", "exclusiveMinimum": "greater than {}", "maximum": "at most {}",
    "maxLength": "at most {} characters",
}  # fmt: skip


def page() -> str:
    """The page."""
    description = create_api(Reader(Sources()), Access("", frozenset()), "0").openapi()
    routes = [
        part
        for path, methods in description["paths"].items()
        for method, route in methods.items()
        for part in _route(method.upper(), path, route, description)
    ]
    return "\n\n".join([MADE, "# REST", description["info"]["description"], _INTRODUCTION, *routes]) + "\n"


def _route(method: str, path: str, route: dict[str, Any], description: dict[str, Any]) -> Iterator[str]:
    yield f"## {method} {path}"
    yield " ".join(route.get("description", route["summary"]).split())
    taken = [_parameter(each, description) for each in route.get("parameters", ())]
    if taken:
        yield _table(("parameter", "in", "value", "default", "meaning"), taken)
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        yield "The body is one of these orders, as JSON:"
        yield _table(("order", "fields", "meaning"), _orders(body, description))
    yield f"Answers: {', '.join(sorted(route['responses']))}."


def _parameter(given: dict[str, Any], description: dict[str, Any]) -> tuple[str, ...]:
    schema = given["schema"]
    default = "required" if given["required"] else _shown(schema.get("default"))
    return f"`{given['name']}`", given["in"], _kind(schema, description), default, given.get("description", "")


def _orders(body: dict[str, Any], description: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for choice in body.get("oneOf", body.get("anyOf", [body])):
        order = _resolved(choice, description)
        required = set(order.get("required", ()))
        fields = [
            _field(name, field, description, needed=name in required) for name, field in order["properties"].items()
        ]
        yield f"`{order['title']}`", "; ".join(fields), " ".join(order.get("description", "").split())


def _field(name: str, schema: dict[str, Any], description: dict[str, Any], *, needed: bool) -> str:
    nullable = any(each.get("type") == "null" for each in schema.get("anyOf", ()))
    kind = _kind(schema, description)
    return f"`{name}`: {kind}{' or null' if nullable else ''}" if needed else f"`{name}` (optional): {kind}"


def _resolved(schema: dict[str, Any], description: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return description["components"]["schemas"][name] if name else schema


def _kind(schema: dict[str, Any], description: dict[str, Any]) -> str:
    schema = _resolved(schema, description)
    choices = [each for each in schema.get("anyOf", schema.get("oneOf", ())) if each.get("type") != "null"]
    if choices:
        return " or ".join(dict.fromkeys(_kind(each, description) for each in choices))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return f"one of {', '.join(f'`{value}`' for value in schema['enum'])}"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}), description)}"
    bounds = [text.format(_shown(schema[key])) for key, text in _BOUNDS.items() if key in schema]
    return ", ".join([schema.get("type", "any"), *bounds])


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:,.15g}" if isinstance(value, float | int) else str(value)


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = [head, ("---",) * len(head), *(tuple(cell.replace("|", "\\|") or "-" for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Write the page."""
    FILE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
