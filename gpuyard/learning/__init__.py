"""Evolution strategies that climb by playing whole windows: docs/learning.md."""
