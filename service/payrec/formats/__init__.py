"""Readers of bank files, and what they share: containers, encodings, detection, accounting."""
