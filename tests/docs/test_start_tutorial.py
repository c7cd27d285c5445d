"""The tutorial, followed step by step against a `holdfast dev` of its own."""

from __future__ import annotations

import pytest

from tests.support.processes.page_commands import page
from tests.support.processes.page_reader import reading


@pytest.mark.timeout(600)
def test_the_tutorial_leads_from_a_file_to_three_regions() -> None:
    with reading() as reader:
        reader.follow(page("start/tutorial.md"))
