"""Leases: permission to expand one node, handed to one client, that expires and takes its virtual loss along."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kforge_mcp.records.base import new_id
from kforge_mcp.records.candidate import Lease
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.search.tree import Pending
from kforge_mcp.store import candidates, leases

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

DURATION = timedelta(minutes=30)
TRIES = 3


def grant(session: Session, card: OperatorCard, parent_id: str, client: str, moment: datetime) -> Lease:
    """Hand out a new lease on a node."""
    lease = Lease(
        lease_id=new_id("lease"),
        card_id=card.card_id,
        project_id=card.project_id,
        parent_id=parent_id,
        client=client,
        created_at=moment,
        expires_at=moment + DURATION,
        tries_left=TRIES,
    )
    leases.save(session, lease)
    return lease


def active(session: Session, card_id: str, moment: datetime) -> list[Lease]:
    """The card's leases that still hold; those past their time are marked expired."""
    holding: list[Lease] = []
    for lease in leases.of_card(session, card_id, state="active"):
        if lease.expires_at > moment:
            holding.append(lease)
        else:
            leases.save(session, lease.model_copy(update={"state": "expired"}))
    return holding


def active_by_card(session: Session, project_id: str, moment: datetime, *, writing: bool) -> dict[str, list[Lease]]:
    """The leases of a project that still hold, by card; with `writing` those past their time are marked expired."""
    holding: dict[str, list[Lease]] = {}
    for lease in leases.of_project(session, project_id, state="active"):
        if lease.expires_at > moment:
            holding.setdefault(lease.card_id, []).append(lease)
        elif writing:
            leases.save(session, lease.model_copy(update={"state": "expired"}))
    return holding


def spend_try(session: Session, lease: Lease, moment: datetime) -> Lease:
    """Take one try for a submission and renew the lease, so that judging does not outlive it."""
    changed = lease.model_copy(update={"tries_left": lease.tries_left - 1, "expires_at": moment + DURATION})
    leases.save(session, changed)
    return changed


def conclude(session: Session, lease: Lease, *, measured: bool) -> Lease:
    """After a completed visit: used up by a measurement or by the last try, else kept for a repair."""
    if lease.state == "active" and (measured or lease.tries_left <= 0):
        lease = lease.model_copy(update={"state": "used"})
        leases.save(session, lease)
    return lease


def pending(session: Session, holding: list[Lease]) -> list[Pending]:
    """Active leases as virtual losses."""
    answered = candidates.answered(session, [lease.lease_id for lease in holding]) if holding else set()
    return [Pending(lease.parent_id, fresh=lease.lease_id not in answered) for lease in holding]
