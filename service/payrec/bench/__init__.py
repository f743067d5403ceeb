"""The yardstick of matching: data sets with known truth, the very run of the product over them, and what it got right.

Nothing of the service imports it; ``payrec bench`` does.
"""
