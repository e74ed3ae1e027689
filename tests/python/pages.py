# SPDX-License-Identifier: MIT
"""Records as pages, where the build has the command phonograph with D3."""

import subprocess

import pytest

import phonograph as ph
from phonograph import page

GRAPH = ph.Graph()
DEVICE = ph.Device("host:threads=1")
STREAM = DEVICE.stream()
X = STREAM.zeros(16)
with GRAPH.capture(STREAM, enable_annotations=True):
    with ph.annotate(STREAM, "a </script> scope"):
        STREAM.fill(X, 1)


def has_page():
    if not page.COMMAND.exists():
        return False
    done = subprocess.run([page.COMMAND, "view", "/dev/null", "-o", "-"], capture_output=True, text=True, check=False)
    return "D3" not in done.stderr


needs_page = pytest.mark.skipif(not has_page(), reason="the build has no command phonograph with D3")


@needs_page
def test_page_of_a_record():
    text = GRAPH.record().html()
    assert text.startswith("<!doctype html>") and "memset" in text and "a </script> scope" not in text
    for thing in (GRAPH, GRAPH.record()):
        shown = thing._repr_html_()
        assert shown.startswith('<iframe sandbox="allow-scripts"') and "<!doctype html>" not in shown  # escaped


@needs_page
def test_page_of_a_profile():
    with GRAPH.profile(STREAM, replays=2) as profile:
        assert "replay_ns" in profile.html()
        assert profile._repr_html_().startswith("<iframe")


@needs_page
def test_a_record_that_is_none_is_refused():
    with pytest.raises(ph.Error, match="phonograph view: "):
        page.page_of("{}")


def test_a_package_without_the_command_shows_a_table(monkeypatch, tmp_path):
    monkeypatch.setattr(page, "COMMAND", tmp_path / "phonograph")
    with pytest.raises(FileNotFoundError, match="without the command"):
        GRAPH.record().html()
    shown = GRAPH._repr_html_()
    assert shown.startswith("<table>") and "<td>memset</td>" in shown


def test_end():
    GRAPH.close()
