"""What recordings of CUDA graphs have in common."""

import warnings

import torch


def give_up_recording(error: RuntimeError) -> str:
    """Go on after a recording that failed: torch draws random numbers again.

    Returns:
        What was in the way, in one line.
    """
    if torch.cuda.is_available():
        # The generator takes itself for one in a graph until the end of the next recording.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                pass
    first: BaseException = error
    while first.__context__ is not None:  # the end of a recording says only that it failed
        first = first.__context__
    return str(first).partition("\n")[0]
