"""Which objective, and why: from a trouble in a user's words to parts, their cost, and what was measured of them."""
