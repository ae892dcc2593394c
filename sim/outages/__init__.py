"""When servers go away and come back: listed, seeded, planned."""
