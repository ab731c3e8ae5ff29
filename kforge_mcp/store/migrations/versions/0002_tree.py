"""What selection needs of a candidate stands in columns."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns, and fill them from the records: a subtree's best is that of its members."""
    for column in (
        sa.Column("parent_id", sa.String(), nullable=False, server_default=""),
        sa.Column("lease_id", sa.String(), nullable=False, server_default=""),
        sa.Column("visits", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("value", sa.Float()),
        sa.Column("gain", sa.Float()),
        sa.Column("best", sa.Float()),
        sa.Column("pace", sa.Float(), nullable=False, server_default="0"),
    ):
        op.add_column("candidates", column)
    op.create_index("ix_candidates_lease_id", "candidates", ["lease_id"])
    tree = ["card_id", "parent_id", "state", "candidate_id", "gain", "visits", "best", "pace"]
    op.create_index("ix_candidates_tree", "candidates", tree)
    op.create_index("ix_candidates_progress", "candidates", ["card_id", "state", "value"])
    op.create_index("ix_candidates_key", "candidates", ["card_id", "source_key"])
    for name in ("card_id", "source_key", "state", "created_at"):
        op.drop_index(f"ix_candidates_{name}", "candidates")
    _fill()


def _fill() -> None:
    connection = op.get_bind()
    best: dict[str, float] = {}
    rows = connection.execute(sa.text("SELECT candidate_id, record FROM candidates ORDER BY rowid DESC")).all()
    for candidate_id, text in rows:
        record = json.loads(text)
        gain = record.get("value") if record.get("state") == "measured" else None
        known = [value for value in (gain, best.get(candidate_id)) if value is not None]
        record |= {"gain": gain, "best": max(known, default=None), "pace": 0.0}
        parent = record.get("parent_id", "")
        if record["best"] is not None:
            best[parent] = max(record["best"], best.get(parent, record["best"]))
        columns = ("parent_id", "lease_id", "visits", "value", "gain", "best", "pace")
        values = {name: record.get(name) for name in columns}
        values |= {"parent_id": parent, "lease_id": record.get("lease_id", ""), "visits": record.get("visits", 0)}
        settings = ", ".join(f"{name} = :{name}" for name in (*columns, "record"))
        connection.execute(
            sa.text(f"UPDATE candidates SET {settings} WHERE candidate_id = :candidate_id"),
            values | {"record": json.dumps(record), "candidate_id": candidate_id},
        )
