"""The native engine: VBMC made for stacking. `loop.run_native` is the engine."""
