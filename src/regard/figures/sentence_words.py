"""The words of a sentence that was given for a figure."""

from regard.errors import RegardError


def sentence_words(option: str, sentence: str, *, least: int = 2, most: int = 12) -> list[str]:
    """The words between the spaces of a sentence; refused where they are too few, or more than can be read in a picture."""
    words = sentence.split()
    if not least <= len(words) <= most:
        raise RegardError(
            f"{option} has {len(words)} words: give {least} to {most}, with spaces between them"
        )
    return words
