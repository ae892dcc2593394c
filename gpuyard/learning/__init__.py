"""Evolution strategies that climb by playing whole windows: docs/agents.md."""
