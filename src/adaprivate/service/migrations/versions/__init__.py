"""The revisions, one file each. A revision that was released is never changed: the next one corrects it."""
