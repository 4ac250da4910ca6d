// Package watch finds the checkpoints that a script writes by itself: complete files and folders in one
// folder, in the order in which they were written.
//
// Place: layer 4, beside ckpt, which keeps what is found (ckpt.FilesSlot, ckpt.WriteFiles). The launcher
// looks now and then, and says what it has taken. It looks at names and times only, and by polling: a
// folder on a network file system tells nobody of changes made elsewhere. Of a folder that has been quiet it
// looks at the times of its own list and its subfolders', and at the files only now and then, so many a look:
// a look costs what changes, not what lies there.
//
// Promise: an entry is given when it is complete: renamed into place from a name that said it was
// not, or unchanged for the quiet period; each once, and again when it has changed. Unchanged says afterwards
// whether what was read is what was given.
//
// Enemies: files that grow while they are read, links that lead elsewhere, pipes, folders without end.
package watch
