"""The nouns of the project as immutable pydantic models, one file each."""
