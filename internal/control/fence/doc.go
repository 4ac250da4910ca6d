// Package fence sees to holds: replicas that were given up without proof of their end, and whose devices are closed on their node.
//
// Place: layer 4; only the leader runs it, after the engine has found everything that runs. Who gives a replica up writes its hold, in the
// same transaction (control/train); an operator who says that a node is lost has it written here, for all that runs there.
// Promise: a hold's devices are closed until the engine has seen the end of its replica; they are open earlier only where the machine
// was restarted since, or an operator answers for it. The hold itself goes when the replica has nothing left to hand over: until then
// every server refuses what it brings (Book). Enemies: two holders of one device, a device that stays closed for ever, outputs and
// points of who was replaced.
//
//  1. A hold of a replica that has ended is released; a hold of one that is done, or that nobody knows, is taken away.
//  2. On a node that an operator called lost every replica has a hold, and all holds are released: nothing is placed there anyway
//     until somebody uncordons it.
//  3. A hold of an earlier boot is released.
package fence
