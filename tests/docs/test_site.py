"""The pages build strictly into a site that loads nothing from elsewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from docs.pages import ROOT

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


class Loaded(HTMLParser):
    """What a page loads, and where it leads."""

    def __init__(self, page):
        super().__init__()
        self.loaded, self.links = [], []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, name, attributes):
        values = dict(attributes)
        if values.get(LOADED.get(name)):
            self.loaded.append(values[LOADED[name]])
        if name == "a" and values.get("href"):
            self.links.append(values["href"])


def test_every_page_loads_files_of_the_site_alone(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in (each for each in pages if each.name != "404.html"):
        for address in Loaded(page).loaded:
            assert not re.match(r"[a-z]+:|//", address), (page.name, address)
            assert (page.parent / unquote(address.partition("?")[0])).exists(), (page.name, address)


def test_styles_load_nothing_from_elsewhere(site):
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_links_lead_to_pages_from_files_too(site):
    for page in (each for each in site.rglob("*.html") if each.name != "404.html"):
        for link in (each for each in Loaded(page).links if not re.match(r"[a-z]+:", each)):
            target = unquote(link.partition("#")[0])
            assert not target or (page.parent / target).is_file(), (page.name, link)


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
