"""What is built on agents and simulator: policies that learn by playing."""
