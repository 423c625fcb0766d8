"""What a run is and where runs are kept: records, plan, journal, files, store."""
