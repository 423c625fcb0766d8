"""The paper's experiments: subsets of archived runs, stacked and scored; tables and figures."""
