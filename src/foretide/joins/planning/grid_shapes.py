"""Shapes of grids: rows and columns for a number of cells, with as few copies of rows as possible."""

from __future__ import annotations

from collections.abc import Iterator

from foretide.joins.plan import How, KeyLoad

GridShape = tuple[int, int]

WHOLE: GridShape = (1, 1)
"""A key that is not split."""

_MIN_USED = 0.75


def copies(load: KeyLoad, shape: GridShape) -> float:
    """Rows stored when a key has a grid of that shape: a left row in each column, a right row in each row.

    >>> copies(KeyLoad(1, 100.0, 10.0), (4, 2))
    240.0
    """
    return load.left * shape[1] + load.right * shape[0]


def shape_for(load: KeyLoad, cells: int, how: How) -> GridShape:
    """The shape with the fewest copies among those of three quarters of these cells to all of them.

    Not all cells have to be used: of 7 cells, 3 x 2 stores much less than 7 x 1.

    >>> shape_for(KeyLoad(1, 50.0, 50.0), 7, "inner"), shape_for(KeyLoad(1, 90.0, 2.0), 7, "inner")
    ((3, 2), (6, 1))
    >>> shape_for(KeyLoad(1, 50.0, 50.0), 7, "left")
    (7, 1)
    """
    if how == "left":
        return cells, 1
    near = (shape for shape in _shapes(cells, how) if shape[0] * shape[1] >= _MIN_USED * cells)
    return min(near, key=lambda shape: _fewest_copies(load, shape))


def ladder(load: KeyLoad, max_cells: int, how: How) -> tuple[GridShape, ...]:
    """Ever finer shapes up to `max_cells` cells, each with the fewest copies of all that are as fine or finer.

    A finer shape whose cells hold more rows than those of a coarser one is left out: of 13 partitions, 4 x 3 uses
    only 12, but 13 x 1 would copy every right row to all of them.

    >>> ladder(KeyLoad(1, 50.0, 50.0), 8, "inner")
    ((1, 1), (2, 1), (2, 2), (3, 2), (4, 2))
    >>> ladder(KeyLoad(1, 50.0, 50.0), 13, "inner")[-1]
    (4, 3)
    """
    rungs = [WHOLE]
    for shape in sorted(_shapes(max_cells, how), key=lambda shape: _fewest_copies(load, shape)):
        finer = shape[0] * shape[1] > rungs[-1][0] * rungs[-1][1]
        if finer and cell_rows(load, shape) < cell_rows(load, rungs[-1]):
            rungs.append(shape)
    return tuple(rungs)


def cell_rows(load: KeyLoad, shape: GridShape) -> float:
    """Rows in one cell, of both sides.

    >>> cell_rows(KeyLoad(1, 100.0, 10.0), (4, 2))
    30.0
    """
    return load.left / shape[0] + load.right / shape[1]


def _fewest_copies(load: KeyLoad, shape: GridShape) -> tuple[float, int, int]:
    """The order of shapes: few copies, then many cells, then many rows."""
    return copies(load, shape), -shape[0] * shape[1], -shape[0]


def _shapes(max_cells: int, how: How) -> Iterator[GridShape]:
    for rows in range(1, max_cells + 1):
        for columns in range(1, 2 if how == "left" else max_cells // rows + 1):
            yield rows, columns
