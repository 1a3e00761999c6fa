"""Models and operators as files: settings, what they build, and the folders they lie in."""

from bcdm.checkpoint.facts import read_facts, write_facts
from bcdm.checkpoint.guest import Guest, welcome
from bcdm.checkpoint.hub import pull_model, push_model
from bcdm.checkpoint.model import Model
from bcdm.checkpoint.operators import agree, describe_operator, load_operator, save_operator
from bcdm.checkpoint.store import find_model, list_models, load, save_model, store_cloud

__all__ = [
    "Guest",
    "Model",
    "agree",
    "describe_operator",
    "find_model",
    "list_models",
    "load",
    "load_operator",
    "pull_model",
    "push_model",
    "read_facts",
    "save_model",
    "save_operator",
    "store_cloud",
    "welcome",
    "write_facts",
]
