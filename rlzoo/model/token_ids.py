"""Text to token ids by a tokenizer that may be anybody's."""

from transformers import PreTrainedTokenizerBase

from rlzoo.errors import UserError, one_line


def token_ids(backend: PreTrainedTokenizerBase, text: str, **options: bool) -> list[int]:
    """Those of a text. Raises UserError where the tokenizer's own code panics, which is no Exception, or stumbles over
    what its files say, such as a `model_max_length` that is text.
    """
    try:
        return list(backend(text, **options)["input_ids"])
    except BaseException as error:
        if type(error).__name__ != "PanicException" and not isinstance(error, TypeError | ValueError):
            raise
        told = f"cannot read a text of {len(text)} characters: {one_line(error)}"
        raise UserError(f"the tokenizer of {backend.name_or_path} {told}") from None
