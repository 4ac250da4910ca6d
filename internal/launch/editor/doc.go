// Package editor serves VS Code in the browser beside the command of an environment: code-server, of the node's tool folder.
//
// Place: layer 4, a program of its own behind the wall, as the user of the environment. Promise: the command is what it would be without us, and its
// end is ours; code-server starts with the first connection, is started again when it ended, and is reached on the loopback of the environment's own network
// alone. Enemies: a tool folder that somebody else can write to, a network that is shared with others, code-server that never answers.
//
// The simple story: `fermi with-vscode COMMAND…` starts the command, listens on a port, and carries each connection to the Unix socket of code-server.
package editor
