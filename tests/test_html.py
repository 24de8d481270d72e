"""Text in elements and attributes is escaped, whatever it is."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from foretide.html import Html, join, tag, text


class Reader(HTMLParser):
    """The text of a page, and its elements with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.text, self.elements, self.open = "", [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))

    def handle_data(self, data):
        self.text += data


@given(st.text(), st.text())
def test_a_text_is_read_back_as_one_text_and_makes_no_element(content, value):
    read = Reader(tag("p", content, title=value))
    assert [name for name, _ in read.elements] == ["p"]
    assert set(read.elements[0][1]) == {"title"}
    assert read.text == Reader(text(content)).text


def test_what_is_html_already_stays_and_nothing_is_left_out():
    assert tag("p", Html("<b>x</b>"), None, "<i>") == "<p><b>x</b>&lt;i&gt;</p>"
    assert join("a", tag("br"), "b") == "a<br>b"


def test_control_characters_and_lone_surrogates_are_shown_as_escapes():
    assert text("a\x00b\u202e\udcff") == r"a\x00b\u202e\udcff"
    text("\x1b\udcff").encode()


def test_attributes_that_are_off_are_left_out():
    assert tag("details", open=False, id=None, hidden=True, tabindex="0") == '<details hidden tabindex="0"></details>'
