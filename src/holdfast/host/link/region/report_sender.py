"""Sends a region's reports to the platform and records the outcome.

A refusal is an outcome: a report that the platform has decided counts as reported. One that it could not decide, for a
reason on the sender's side, is sent again later. The platform cannot ship the removal of an ended assignment that it
does not have: the region forgets it itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.model.values.ranges import count_numbers, format_ranges, ranges_of
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform import commands as p
from holdfast.core.region.commands import ForgetAssignment
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import Unavailable
from holdfast.host.leader.leader import Leader
from holdfast.host.link.region.follower import ACTOR
from holdfast.host.link.region.reports import OFFERS, Name, ReportCommand
from holdfast.host.link.region.session import RegionSession
from holdfast.host.protocol.commands import CommandOutcome, CommandReply
from holdfast.host.runtime.telemetry import Logger

#: Reports sent before their answers are recorded: fewer than the refusals in a row that use up a session.
REPORTS_MAX = 100

#: Final refusals: sending the report again would change nothing.
_FINAL = (
    Code.ALREADY, Code.NOT_FOUND, Code.STALE, Code.NOT_OWNER, Code.WRONG_PHASE, Code.CONTRADICTORY, Code.TOO_EARLY,
)  # fmt: skip
#: Refusals that are expected.
_USUAL = (Code.ALREADY, Code.STALE, Code.NOT_FOUND, Code.TOO_EARLY)


class ReportSender:
    """Sends a region's reports in one session."""

    def __init__(self, leader: Leader[RegionState], speaker: RegionSession, logger: Logger) -> None:
        self._leader = leader
        self._speaker = speaker
        self._logger = logger
        self._metrics = leader.term.metrics

    async def submit(self, words: Sequence[ReportCommand], reported: dict[Name, Any]) -> bool:
        """Send reports until each is answered, and record those that count as reported. Return whether all do.

        Answers are recorded before more is sent: if the session ends, the next one continues there.
        """
        all_told = True
        for first in range(0, len(words), REPORTS_MAX):
            all_told &= await self._send_batch(words[first : first + REPORTS_MAX], reported)
        return all_told

    async def _send_batch(self, words: Sequence[ReportCommand], reported: dict[Name, Any]) -> bool:
        answers = await self._speaker.send_many([word.command for word in words])
        all_told = True
        for word, answered in zip(words, answers, strict=True):
            if answered.said is CommandOutcome.LANDED:
                self._landed(word.command)
                reported.update(word.reported)
            elif await self._is_judged(word.command, answered):
                reported.update(word.reported)
                if isinstance(word.command, p.OfferBack) and answered.code == Code.TOO_EARLY:
                    later = max(self._later(answered, at) for _, at in word.reported)
                    reported.update({name: later for name, _ in word.reported} | {OFFERS: later})
            else:
                all_told = False
        return all_told

    def _landed(self, command: Any) -> None:
        match command:
            case p.Report(_, _, seen, summary):
                self._metrics.count("link_reports")
                self._metrics.count("link_reported", len(seen))
                self._metrics.count("link_summaries", summary is not None)
            case p.Acknowledge():
                self._metrics.count("link_acknowledged")
            case p.AcknowledgeGrant(account, version, settled):
                self._metrics.count("link_settled")
                self._logger.info("grant-settled", account=account, version=version, settled=settled)
            case p.ReleaseRights(workload, ordinals):
                self._metrics.count("link_released", count_numbers(ranges_of(ordinals)))
                self._logger.info(
                    "rights-released", workload=workload, ordinals=",".join(format_ranges(ranges_of(ordinals))[:8])
                )
            case p.RemoveAssignment(assignment):
                self._metrics.count("link_removed")
                self._logger.info("assignment-removed", assignment=assignment)
            case p.OfferBack(assignment, count, message):
                self._metrics.count("link_offered_back", count)
                self._logger.info("offered-back", assignment=assignment, count=count, why=message)

    async def _is_judged(self, command: Any, answered: CommandReply) -> bool:
        """Return whether a refusal is final for a command."""
        self._metrics.count("link_words_refused", code=answered.code)
        if answered.code not in _USUAL:
            name = type(command).__name__
            self._logger.warning("word-refused", command=name, code=answered.code, why=answered.message)
        if isinstance(command, p.RemoveAssignment) and answered.code == Code.NOT_FOUND:
            return await self._forget(command.assignment)
        if isinstance(command, p.OfferBack) and answered.code == Code.STALE:
            return False  # offered again, with the count that is pending by then
        return answered.code in _FINAL

    def _later(self, answered: CommandReply, otherwise: int) -> int:
        """Return, in this region's time, when it is no longer too early."""
        until, now = answered.facts.get("until", 0), self._leader.term.now()
        return min(otherwise, now + max(0, until - self._speaker.offset.to_remote(now))) if until else otherwise

    async def _forget(self, assignment: Revision) -> bool:
        """Return whether the region's own ledger has decided the command."""
        try:
            answer = await self._leader.submit_as(ACTOR, ForgetAssignment(assignment))
        except Unavailable as error:
            self._logger.warning("not-forgotten", assignment=assignment, why=error)
            return False
        if not isinstance(answer, Refused):
            self._metrics.count("link_forgotten")
            self._logger.info("assignment-forgotten", assignment=assignment)
        return True
