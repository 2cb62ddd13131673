"""Head and worker pods as they are made: templates, start command, environment, probes."""
