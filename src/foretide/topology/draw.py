"""Drawing a topology: as text for a terminal, and as Mermaid for a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretide.topology.graph import Bolt, From, Topology, output_name

if TYPE_CHECKING:
    from collections.abc import Iterator


def as_mermaid(topology: Topology) -> str:
    """A Mermaid flowchart; feedback is dashed, the sink is where streams end that nobody reads."""
    lines = ["flowchart LR"]
    lines += [f"  {_key(spout.id)}([{spout.id}])" for spout in topology.spouts]
    lines += [f'  {_key(bolt.id)}["{bolt.id}{_size(bolt)}"]' for bolt in topology.bolts]
    for bolt in topology.bolts:
        for source in bolt.inputs:
            arrow = "-.->" if source.feedback else "-->"
            lines.append(f'  {_key(source.component)} {arrow}|"{_caption(source)}"| {_key(bolt.id)}')
    lines.append("  sink[(sink)]")
    lines += [f'  {_key(bolt.id)} -->|"{output_name(bolt.id, stream)}"| sink' for bolt, stream in topology.outputs()]
    return "\n".join(lines) + "\n"


def as_text(topology: Topology) -> str:
    """Boxes from spouts to the sink, each with the edges that lead into it.

    >>> from foretide.topology.groupings import Dynamic
    >>> from foretide.topology.graph import Spout
    >>> from foretide.topology.sources import Rate
    >>> work = lambda frame: frame
    >>> print(as_text(Topology("t", [Spout("s", Rate(1))], [Bolt("b", work, [From("s", Dynamic())], pool=2)])))
    t
    <BLANKLINE>
    (s)
     │
     │ s ── dynamic ──▶
     ▼
    ┌──────┐
    │ b x2 │ native
    └──────┘
     │
     └─▶ sink: b
    <BLANKLINE>
    """
    lines = [topology.name, "", "   ".join(f"({spout.id})" for spout in topology.spouts)]
    for bolt in topology.in_order():
        lines += _bolt_lines(topology, bolt)
    return "\n".join(lines) + "\n"


def _bolt_lines(topology: Topology, bolt: Bolt) -> Iterator[str]:
    yield " │"
    for source in bolt.inputs:
        mark = " (feedback, a batch later)" if source.feedback else ""
        yield f" │ {_origin(source)} ── {source.grouping} ──▶{mark}"
    yield " ▼"
    title = f"{bolt.id}{_size(bolt)}"
    yield f"┌─{'─' * len(title)}─┐"
    yield f"│ {title} │ {_kind(bolt)}"
    yield f"└─{'─' * len(title)}─┘"
    ends = [output_name(bolt.id, stream) for made, stream in topology.outputs() if made.id == bolt.id]
    if ends:
        yield " │"
        yield f" └─▶ sink: {', '.join(ends)}"


def _origin(source: From) -> str:
    return source.component if source.stream == "default" else f"{source.component}.{source.stream}"


def _caption(source: From) -> str:
    return str(source.grouping) if source.stream == "default" else f"{source.stream}: {source.grouping}"


def _size(bolt: Bolt) -> str:
    return f" x{bolt.pool_size}" if bolt.controllable and (bolt.pool or bolt.replicas) else ""


def _kind(bolt: Bolt) -> str:
    return {"Native": "native", "Arrow": "Arrow", "PerTuple": "per tuple"}[type(bolt.operator).__name__]


def _key(name: str) -> str:
    """A node's key: an id may be a word of Mermaid's own, such as `end`."""
    return f"c_{name.replace('_', '__').replace('-', '_')}"
