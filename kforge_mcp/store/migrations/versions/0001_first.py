"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _table(name: str, key: str, columns: list[sa.Column], owners: tuple[str, ...] = (), indexed: str = "") -> None:
    op.create_table(
        name,
        sa.Column(key, sa.String(), nullable=False),
        *columns,
        sa.Column("record", sa.JSON(), nullable=False),
        *(
            sa.ForeignKeyConstraint(
                [owner], [f"{owner[:-3]}s.{owner}"], name=op.f(f"fk_{name}_{owner}"), ondelete="CASCADE"
            )
            for owner in owners
        ),
        sa.PrimaryKeyConstraint(key, name=op.f(f"pk_{name}")),
    )
    for column in (*owners, *indexed.split()):
        op.create_index(op.f(f"ix_{name}_{column}"), name, [column])


def _texts(names: str) -> list[sa.Column]:
    return [sa.Column(name, sa.String(), nullable=False) for name in names.split()]


def upgrade() -> None:
    """Make every table."""
    _table("projects", "project_id", _texts("created_at"), indexed="created_at")
    _table("cards", "card_id", _texts("project_id level"), ("project_id",), "level")
    _table(
        "candidates",
        "candidate_id",
        _texts("card_id project_id source_key state created_at"),
        ("card_id", "project_id"),
        "source_key state created_at",
    )
    _table(
        "leases",
        "lease_id",
        _texts("card_id project_id state expires_at created_at"),
        ("card_id", "project_id"),
        "state expires_at",
    )
    _table("budgets", "owner_id", [])
    numbers = [
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
    ]
    _table(
        "jobs",
        "job_id",
        [*_texts("tool arguments_key status"), *numbers, *_texts("created_at")],
        indexed="tool arguments_key status created_at",
    )
    _table("packages", "package_id", _texts("project_id created_at"), ("project_id",), "created_at")
