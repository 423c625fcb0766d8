"""A passive model of a pyramidal cell, five parameters: NEURON, its data, its true posterior."""
