"""What every record shares."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict
from pydantic.functional_serializers import PlainSerializer

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class Record(BaseModel):
    """An immutable value with a closed set of fields; change one by `model_copy(update=...)`."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")


def _utc_text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


Moment = Annotated[datetime, PlainSerializer(_utc_text, when_used="json")]
"""A point in time, UTC, ISO 8601 in JSON."""


def now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


def new_id(prefix: str) -> str:
    """A fresh identifier such as `card_7k2m9x4qpa`: 50 random bits behind a prefix naming the noun."""
    return prefix + "_" + "".join(secrets.choice(_ALPHABET) for _ in range(10))
