"""What people see of a fit: tables, figures, a card."""
