"""The page on the REST API is what its script makes of the OpenAPI description."""

import importlib.util

import pytest

from docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "rest.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORETIDE_HOME", str(tmp_path_factory.mktemp("home")))
        spec = importlib.util.spec_from_file_location("rest_reference", ROOT / "scripts" / "rest_reference.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.page()


def test_the_checked_in_page_is_the_one_that_is_made(made):
    assert PAGE.read_text(encoding="utf-8") == made, "run make docs"


def test_every_order_and_what_it_takes_is_listed(made):
    orders = made.partition("## POST /api/v1/pipelines/{pipeline}/actions")[2].partition("\n## ")[0]
    for action in ("split", "replicas", "admission", "target", "drain", "mode", "release", "restart"):
        assert f"`action`: `{action}`" in orders
    assert "`rows`: integer, at least 1" in orders
    assert "or null" in orders
