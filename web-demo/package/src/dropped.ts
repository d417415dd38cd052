/** The files of a dropped folder. */

/**
 * All files directly in what was dropped: single files, and the files of one folder level. Call it inside the `drop`
 * event; the list of items is gone after it.
 */
export async function droppedFiles(dropped: DataTransfer): Promise<File[]> {
  const entries = [...dropped.items].map((item) => item.webkitGetAsEntry());
  // Older ways in have files only.
  if (entries.every((entry) => entry === null)) return [...dropped.files];
  const files: File[] = [];
  for (const entry of entries) {
    if (entry === null) continue;
    const inside = entry.isDirectory ? await children(entry as FileSystemDirectoryEntry) : [entry];
    for (const child of inside) {
      if (child.isFile) files.push(await file(child as FileSystemFileEntry));
    }
  }
  return files;
}

async function children(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    // A reader gives its entries in batches, an empty one at the end.
    const batch = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (batch.length === 0) return all;
    all.push(...batch);
  }
}

function file(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}
