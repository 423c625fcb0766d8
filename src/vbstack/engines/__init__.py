"""What makes a run: engines by name, and the recorder between an engine and the log density."""
