"""Published test sets as sacrebleu reads them, with our downloader in front of its own.

sacrebleu downloads in one go, without a retry, and keeps what an interrupted run left. So the
archive is put where sacrebleu looks for it, checked with sacrebleu's checksum; reading it is
sacrebleu's work.
"""

import shutil
from pathlib import Path

from filelock import FileLock

from onmt_define.workflow.archives import extract_members
from onmt_define.workflow.downloads import Mirror, at_mirror, fetch

# The directions of a pair differ in nothing but which side is called the source.
LANGUAGE_PAIR = ("en", "de")


def fetch_test_set(
    name: str, folder: Path, mirror: str | None = None
) -> tuple[dict[str, Path], str]:
    """Write both sides of sacrebleu's test set `name` (`wmt14/full`) into `folder`.

    Returns the file of each language, and where the archive came from. It stays in sacrebleu's own
    folder (~/.sacrebleu, or $SACREBLEU), so that `sacrebleu -t` finds it too.
    """
    from sacrebleu.dataset import DATASETS  # takes half a second

    dataset, pair = DATASETS[name], "-".join(LANGUAGE_PAIR)
    (url,), (md5,) = dataset.data or [], dataset.md5 or []
    mirrors = [Mirror(url, f"md5:{md5}")]
    # Underscored names of sacrebleu: it has no public way to ask where it will look.
    raw_folder = Path(dataset._rawdir)
    archive = raw_folder / dataset._get_tarball_filename(url)
    raw_folder.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(raw_folder / ".onmt_define.lock"):
        origin = fetch(at_mirror(mirrors, mirror) if mirror else mirrors, archive)
        extract_members(archive, {path: raw_folder / path for path in dataset.langpairs[pair]})
        # Always anew: an earlier run may have been stopped half-way through these files.
        dataset.process_to_text(pair)
        copies = {}
        for language, path in zip(LANGUAGE_PAIR, dataset.get_files(pair), strict=False):
            copies[language] = folder / f"{name.replace('/', '-')}.{language}"
            shutil.copyfile(path, copies[language])
    return copies, origin
