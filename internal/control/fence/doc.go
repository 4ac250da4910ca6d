// Package fence sees to holds: replicas that were given up without proof of their end, and whose devices are closed on their node.
//
// Place: layer 4; only the leader runs it, after the engine has found everything that runs. Who gives a replica up writes its hold, in the
// same transaction (control/train); an operator who says that a node is lost has it written here, for all that runs there.
// Promise: a hold goes when the engine has seen the end of its replica, and not before; its devices are open earlier only where
// the machine was restarted since, or an operator answers for it. Enemies: two holders of one device, a device that stays closed for ever.
//
//  1. A hold without a replica that lives is taken away.
//  2. On a node that an operator called lost every replica has a hold, and all holds are released: nothing is placed there anyway
//     until somebody uncordons it.
//  3. A hold of an earlier boot is released.
package fence
