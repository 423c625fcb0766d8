"""Why our own choices are as they are: solver, pooling, evaluations under noise, enough runs."""
