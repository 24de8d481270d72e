"""Whether limits and drained places fit a pipeline. Restarts are in tests/runtime/loop/test_orders.py."""

import pytest

from foretide.control_folder.facts import PipelineFacts, check_admission, check_place
from foretide.errors import ActionError


def test_limits_and_drained_places_have_to_be_there():
    facts = PipelineFacts("shop", {"lines": True, "clicks": False}, {})
    check_admission("lines", facts)
    check_place("1", {"1": "host-a"})
    check_place("host-a", {"1": "host-a"})
    for spout in ("clicks", "nobody"):
        with pytest.raises(ActionError, match=f"'{spout}'.*spouts whose limit can be changed: lines"):
            check_admission(spout, facts)
    with pytest.raises(ActionError, match="no host or executor '2' is known; there are: none yet"):
        check_place("2", {})
