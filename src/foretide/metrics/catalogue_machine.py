"""Machines, every 15 seconds: CPU, memory, paging, disk, network, sockets, pressure."""

from __future__ import annotations

from foretide.metrics.metric import Metric

MACHINE: tuple[Metric, ...] = ()
