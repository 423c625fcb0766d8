"""What a problem is made of: bounds, priors, maps of parameters, one evaluation."""
