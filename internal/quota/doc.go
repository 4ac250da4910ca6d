// Package quota holds projects to what they may keep: bytes of logs, outputs, uploaded code, checkpoints and images, and numbers of
// objects.
//
// Place: layer 4, between the stores of bytes and those who write into them: the server and the hub ask it first. Promise: a question
// costs no look at any store; what would go over a limit is refused with a fault that names the limit, what is used, and what to
// delete. Enemies: a server that has just started and has not counted yet, launchers that write beside every server, bytes of
// tasks that are long gone.
package quota
