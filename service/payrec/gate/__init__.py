"""What stands before the routes: who may do what, how much of it, and the parsing of bodies."""
