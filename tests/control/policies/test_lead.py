"""How long executors take to come is observed, from the request to their first task."""

from control.worlds import WORKERS, observed, world
from foretide.control.actions.registry import SetExecutors
from foretide.control.policies.lead import Lead
from foretide.control.world.world import Request


def seen(at, executors, idle=frozenset(), asked=()):
    requested = tuple(Request(SetExecutors(count), 1, when) for when, count in asked)
    return world(at, seen=observed(executors=executors, idle=idle), requested=requested)


def test_the_time_from_the_request_to_the_first_task_is_taken_and_smoothed():
    more = {**WORKERS, "4": "h0"}
    lead = Lead().observe(seen(1001.0, WORKERS, asked=[(1000.0, 5)]))
    lead = lead.observe(seen(1006.0, more, idle=frozenset("4")))
    assert lead.seconds is None  # there, but without a task
    lead = lead.observe(seen(1012.0, more))
    assert lead == Lead(12.0)
    lead = lead.observe(seen(1101.0, more, asked=[(1100.0, 6)])).observe(seen(1104.0, {**more, "5": "h1"}))
    assert lead == Lead(8.0)


def test_what_is_given_back_or_never_comes_tells_nothing():
    fewer = Lead(3.0).observe(seen(1001.0, WORKERS, asked=[(1000.0, 2)]))
    assert fewer == Lead(3.0)
    never = Lead(3.0).observe(seen(1001.0, WORKERS, asked=[(1000.0, 9)]))
    assert never.observe(seen(1100.0, WORKERS)) == never
    assert never.observe(seen(1700.0, WORKERS)) == Lead(3.0)
