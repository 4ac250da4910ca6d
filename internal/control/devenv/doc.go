// Package devenv keeps development environments true: placed, started, kept running, stopped and started again.
//
//	Pending → Initializing → Running ⇄ Recovering
//	   ↑___________ start ______ Stopped, Failed ← stop, or no restarts left
//
// Place: layer 4; control/work observes and applies, this package decides.
//
// Promise, as invariants:
//  1. It has one replica at most, and an attempt begins only when every replica of the earlier ones has ended: its home is open once.
//  2. It never leaves the store by age: what is stopped may be started tomorrow. Only its deletion takes it away.
//  3. Its home is deleted after its last replica has ended and before the object is: a crash between them repeats the deletion.
//  4. On a node that says nothing it is unreachable: it is neither started elsewhere nor stopped before it is heard again, or an operator
//     says that the machine is gone (fermi node lost); then it waits for a start.
//  5. A start that was asked for while it still ended is heard when it has.
//
// Enemies: a second home, a stopped environment that is archived, a restart that nobody asked for.
package devenv
