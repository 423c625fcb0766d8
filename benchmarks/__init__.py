"""The measurements behind the package's claims: `python -m benchmarks --help` lists them.

Rooms, in the order of their imports: `problems` (log densities with their true answers), `scoring`
(an approximation against the truth), `baselines` (what else could be used), and the commands in
`paper` (the paper's experiments), `races` (speed and quality against others) and `ablations` (why
our own choices are as they are). Data are in `archives`, `references` and `results`.
"""
