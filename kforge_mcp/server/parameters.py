"""Parameters that several tools share, with the descriptions that a client's model reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

WaitS = Annotated[
    float,
    Field(
        ge=-1,
        le=50,
        description="Seconds to wait for the result, 0 to 50; -1: the server's default. After that the answer is "
        "status 'running' with a job_id; the work goes on.",
    ),
]
ProjectId = Annotated[str, Field(description="A project; empty: the latest")]
CardId = Annotated[str, Field(description="An operator card, as listed by list_operator_cards")]
CandidateId = Annotated[str, Field(description="A candidate, as returned by submit_candidate or search_status")]
JobId = Annotated[str, Field(description="A job, as returned with status 'running'")]
