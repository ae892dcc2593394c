"""How well models predict rows that they have not seen."""
