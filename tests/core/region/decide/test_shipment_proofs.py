"""Ship: the newest proof of where the platform's log was lies beside the cursor, and goes with that log (ADR 0028)."""

from holdfast.core.region import commands as c
from tests.support.ledgers.region import LINK, RegionBench


def proof_in(bench: RegionBench) -> str:
    return bench.state.region.proof


def test_the_newest_proof_is_kept_also_where_a_step_brings_none() -> None:
    bench = RegionBench()
    bench.ship(proof="first")
    bench.ship(proof="second")
    bench.ship()
    assert proof_in(bench) == "second"


def test_a_proof_comes_with_the_end_of_a_list_and_that_of_another_log_is_gone() -> None:
    bench = RegionBench()
    bench.ship(proof="of the platform's log")
    cursor = bench.state.region.cursor
    for number, last in enumerate((False, True)):
        puts = (c.ShippedRegion("eu", "eu"),) if number == 0 else ()
        part = c.Ship("log-restored", 1, 0, cursor + 9, puts, full=True, part=number, last=last)
        assert proof_in(bench) == "of the platform's log"
        bench.accept(LINK, part)
    assert (bench.state.region.platform_log, proof_in(bench)) == ("log-restored", "")


def test_a_log_of_level_1_keeps_no_proof() -> None:
    bench = RegionBench(level=1)
    bench.ship(proof="first")
    assert proof_in(bench) == ""
