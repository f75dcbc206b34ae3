"""Tables for query engines: each module is for one engine, needs its extra, and reads what the engine asks for."""
