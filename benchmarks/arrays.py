"""`Array`: what every benchmark computes with, an array of double precision numbers."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
