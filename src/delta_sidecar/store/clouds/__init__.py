"""One module a cloud: its options, its credentials and how it says that something is wrong."""
