def bound(limit):
    return limit
