"""Records in SQLite, everything large in content-addressed blobs."""
