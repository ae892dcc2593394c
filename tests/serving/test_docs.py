"""The commands of docs/serve.md do what the page says."""

import re
import shutil
import subprocess

import pytest

from gpuyard.serving.forms import GROUP, GROUP_SIZE, KNOWN
from gpuyard.serving.serve import SHORTEST_TOKEN
from tests.serving.conftest import ROOT, Service

PAGE = (ROOT / "docs" / "serve.md").read_text()


def test_its_curl_commands_are_answered(fresh: Service):
    if shutil.which("curl") is None:
        pytest.skip("no curl on this machine")
    blocks = [block for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) if "curl" in block]
    assert len(blocks) == 2
    for block in blocks:
        script = block.replace("http://127.0.0.1:8023", fresh.url)
        done = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert '"start"' in done.stdout or '"NodeNames":["1"]' in done.stdout


def test_it_is_short_and_names_every_annotation():
    assert len(PAGE.split()) <= 350
    assert [name for name in KNOWN if name.partition("/")[2] not in PAGE] == []
    assert {GROUP, GROUP_SIZE} <= set(KNOWN)


def test_it_says_what_a_token_and_a_replay_need():
    assert f"a token of {SHORTEST_TOKEN} letters or more" in PAGE
    replay = PAGE[PAGE.index("**Replay.**") :]
    for words in ("while `gpuyard serve` runs", "scheduler.url=", "scheduler.token_file="):
        assert words in replay
