// Package cli puts the commands that talk to a server together: it is `fermi` with every verb.
//
// Place: layer 5, a door; imports only api/v1, client, sample, the foundation and libraries. The commands have packages of their own below it, by
// area: object, train, cluster, tenant; what they share is call, show, speech and usage. The assembly adds the commands that start things
// (up, server, launch, restore …) to Root.
// Promise: data goes to stdout and nothing else does; chatter, prompts and errors go to stderr, in
// the user's language; exit codes come from fault.Code, 2 for wrong usage, and `train run` ends as
// its task did. A token is never taken from the command line, and the local one never leaves this
// machine.
// Enemies: tables that break in half on CJK text, colour codes in files, an archive that changes
// its digest, a Ctrl-C that loses work.
package cli
