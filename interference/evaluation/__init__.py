"""How well models predict rows that they have not seen, and what people see of it."""
