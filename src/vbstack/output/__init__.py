"""Everything a person reads: words, figures, the report, files for other programs."""
