"""The experiments of this package, one file each: `EXPERIMENT` is its last line's name."""
