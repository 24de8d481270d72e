from foretide.metrics.batch import SourceRange


def taken(start, end, latest=None):
    return SourceRange(start, end, latest or {}, input_rows=0)


def test_a_source_that_counts_rows_says_how_many_it_handed_out():
    assert taken({"spout": "lines", "row": 40}, {"spout": "lines", "row": 100}).rows == 60
    assert taken({"row": 40}, {"row": 40}).rows == 0


def test_a_first_batch_has_no_start_and_begins_at_row_0():
    assert taken({}, {"spout": "lines", "row": 7}).rows == 7


def test_a_source_that_does_not_count_rows_says_nothing_of_them():
    other = taken({"logOffset": 1}, {"logOffset": 2}, {"logOffset": 9})
    assert (other.spout, other.rows, other.backlog) == (None, None, None)


def test_the_backlog_is_what_was_due_but_not_taken_and_never_negative():
    assert taken({}, {"row": 10}, {"row": 25}).backlog == 15
    assert taken({}, {"row": 10}, {"row": 5}).backlog == 0
    assert taken({}, {"row": 10}).backlog is None
