"""Queue schedulers as compiled code that acts on the state itself; the loop is in `loop`."""
