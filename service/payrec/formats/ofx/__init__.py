"""The reader of OFX and QFX: what banks send to accounting programs."""
