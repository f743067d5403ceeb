"""What the command ``payrec`` does: one file for a group of commands, each with ``run(arguments)``."""
