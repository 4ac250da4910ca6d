// Package folder keeps objects as files under one folder.
//
// Place: layer 3, an adapter of blob. An object is the file objects/<key>; it is written as
// tmp/<two digits>/<random>, synced, and moved into place: many writers at once share no folder but their objects'.
//
// Promise: an object is there whole or not at all, also after a power cut once Put returned;
// nothing outside the folder is ever read or written, whatever links somebody puts inside.
//
// Enemies: half-written files, names that climb out, walking a million files to list ten. A key
// cannot be both an object and the folder of others ("a" and "a/b"): the later Put is fault
// Conflict.
package folder
