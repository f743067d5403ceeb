"""Speed, in figures beside their yardsticks; and of matching data with known truth, its run, and what it got right.

Nothing of the service imports it; ``payrec bench`` does.
"""
