// Package audit writes who asked for what and how it ended, and serves that.
//
// Place: beside the handlers of the server, over the port history.
//
// Promise: what was changed has one entry with before and after, never with a secret; what anybody can repeat at
// will is counted; an export is whole or says that it is not.
//
// Enemies: a caller who wants to fill the disk; a crash between the commit and the entry; secrets in what is kept.
package audit
