"""A run's model, with its card and curves, on the Hugging Face hub."""

from pathlib import Path

from rlzoo.config import PushConfig
from rlzoo.errors import UserError, one_line
from rlzoo.experiment.progress import model_files
from rlzoo.experiment.run_folder import RunFolder


def push(run: str, name: str, config: PushConfig) -> str:
    """Uploads a run's last checkpoint as one commit of OWNER/MODEL; returns its address.

    What only training needs stays here. Raises UserError for a run without a checkpoint, and for what the hub refuses.
    """
    folder = RunFolder(Path(run))
    if not folder.config.exists():
        raise UserError(f"{run} is no run; rlzoo push takes the folder of one: rlzoo push runs/NAME OWNER/MODEL")
    checkpoint = folder.last_checkpoint()
    if checkpoint is None:
        raise UserError(f"{run} has no checkpoint yet; rlzoo train {folder.config} resume=true goes on with it")

    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HFValidationError, LocalTokenNotFoundError

    from rlzoo.report.model_card import CARD, model_card

    files = [*model_files(checkpoint), *(path for path in (folder.curves, folder.config) if path.exists())]
    operations = [CommitOperationAdd(path.name, path) for path in files if path.name != CARD]
    operations.append(CommitOperationAdd(CARD, model_card(folder).encode()))
    api = HfApi()
    try:
        address = api.create_repo(name, private=config.private, exist_ok=True)
        message = f"Train with {folder.path.name}"
        api.create_commit(name, operations, commit_message=message, revision=config.revision or None)
    except HFValidationError as error:
        raise UserError(f"{name} is no name of a model on the hub, OWNER/MODEL: {one_line(error)}") from None
    except LocalTokenNotFoundError:
        raise UserError("nobody is logged in to the hub: `hf auth login`, or a token in HF_TOKEN") from None
    except Exception as error:  # the hub's errors, and those of the connection, which its versions name differently
        raise UserError(f"the hub at {api.endpoint} refused {name}: {one_line(error)}") from None
    return str(address)
