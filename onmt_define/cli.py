"""The `onmt_define` command; each subcommand lives with its subject."""

import argparse

from onmt_define import __version__
from onmt_define.analysis.commands import add_commands as add_analysis_commands
from onmt_define.compression.commands import add_commands as add_compression_commands
from onmt_define.errors import exit_on_user_error
from onmt_define.lm.commands import add_commands as add_lm_commands
from onmt_define.opennmt.commands import add_commands as add_opennmt_commands
from onmt_define.paper.commands import add_commands as add_paper_commands
from onmt_define.workflow.commands import add_commands as add_workflow_commands


def main() -> None:
    """Run the subcommand that the command line names."""
    parser = argparse.ArgumentParser(
        prog="onmt_define", description="DeFINE input layers for sequence models."
    )
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    add_opennmt_commands(subparsers)
    add_lm_commands(subparsers)
    add_analysis_commands(subparsers)
    add_compression_commands(subparsers)
    add_paper_commands(subparsers)
    add_workflow_commands(subparsers)
    with exit_on_user_error():
        arguments = parser.parse_args()
        arguments.function(arguments)
