"""`snakemake`, but looks at its jobs every second, not ever more rarely as it does in real life."""

import sys

from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

RemoteExecutor.next_seconds_between_status_checks = property(
    lambda executor: 1, lambda executor, seconds: None
)

if __name__ == "__main__":
    sys.exit(main())
