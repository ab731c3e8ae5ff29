"""Run by Alembic with the connection that `kforge_mcp.store.migration` opened."""

from alembic import context

from kforge_mcp.store import schema

context.configure(
    connection=context.config.attributes["connection"], target_metadata=schema.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
