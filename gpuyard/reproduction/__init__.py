"""Tables and figures of papers."""
