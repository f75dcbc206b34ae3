"""What is on disk in a Delta log, and only that: names, actions, schemas, values. No I/O."""
