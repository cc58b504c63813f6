"""The zoo inside trainers that people run already. The zoo knows none of them: import the adapter by its module."""
