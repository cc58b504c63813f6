from dataclasses import dataclass

from bounds import bound

from objectives import Mask, parameter, parse, recipe, register


@register
@dataclass(frozen=True)
class Sparo(Mask):
    name = "sparo"
    reads = frozenset({"logp"})
    limit: float = parameter(0.9, "(0, 1)", "probability above which a token is left out")

    def keeps(self, batch):
        return batch.logp.exp() <= bound(self.limit)


RECIPES = {"paper": (*parse("grpo").parts, Sparo(limit=0.7))}
recipe("sparo_grpo", paper="", summary="Sparo", variants=RECIPES, contribution=("sparo",))
