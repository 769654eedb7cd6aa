"""Constants of the method that are not settings. Kernels get them as arguments, so that they follow a change here."""

ETA = 0.01  #: eta, width of the soft step between wedges, in patch coordinates
DELTA = 0.05  #: delta, width of a drawn boundary, in patch coordinates
LIFT = 0.1  #: how far a vanishing sector is lifted, so that it vanishes cleanly
LIFT_POWER = 35  #: of the lift in the sector's opening; the kernels write this power out as products
COLOR_FLOOR = 1e-10  #: keeps the color of an empty wedge finite

ADAM_BETAS = (0.5, 0.99)  #: beta_1 and beta_2 of Adam
ADAM_GAINS = (0.5, 0.01)  #: 1 - beta of each, without the rounding of a difference
ADAM_EPSILON = 1e-8

DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))  #: paths of SGM: down, right
INVALID_COST = -1.0  #: marks a cell with too few partners, before scaling (costs are never negative)
MAX_COST = 32767  #: int16's largest; a cost this far above the lowest is hopeless, and how hopeless does not matter

PAINTED_BYTES = 64 * 2**20  #: of painted patches on a GPU at a time: enough to fill it with work
BAND_CELLS = 2**25  #: distances between patches that a GPU holds at a time: bounds the memory
