from hypothesis import given
from hypothesis import strategies as st

from foretide.soak.minimise import minimise

ITEMS = st.lists(st.integers(0, 1000), max_size=60, unique=True)


@given(items=ITEMS, data=st.data())
def test_exactly_what_is_needed_to_fail_is_found_in_its_order(items, data):
    needed = data.draw(st.sets(st.sampled_from(items))) if items else set()
    found = minimise(items, lambda part: needed <= set(part))
    assert list(found) == [item for item in items if item in needed]


@given(items=ITEMS, modulus=st.integers(2, 7), rest=st.integers(0, 6))
def test_what_is_found_fails_and_no_single_item_can_be_left_out(items, modulus, rest):
    def fails(part):
        return len(part) == len(items) or sum(part) % modulus == rest

    found = minimise(items, fails)
    assert fails(found)
    assert not any(fails(found[:place] + found[place + 1 :]) for place in range(len(found)))


@given(items=ITEMS.filter(bool), max_tries=st.integers(0, 20))
def test_no_more_tries_are_made_than_allowed_and_what_is_found_fails(items, max_tries):
    needed, tries = {items[0], items[-1]}, []

    def fails(part):
        tries.append(part)
        return needed <= set(part)

    found = minimise(items, fails, max_tries)
    assert len(tries) <= max_tries
    assert needed <= set(found)


def test_few_of_many_items_are_found_in_few_tries():
    tries = []

    def fails(part):
        tries.append(part)
        return {17, 901} <= set(part)

    assert minimise(range(1000), fails) == (17, 901)
    assert len(tries) < 60
