// Package attack is a hostile member of a project against the shipped binary as root.
//
// Place: test only. Promise: each attack is tried for real by a member's token or a member's process, and after each one
// three things are looked at: owners and modes of everything that is not the member's are what they were, no secret of the
// platform is in anything the member can read, and the other tenant still works. Enemies: an attack that fails for
// another reason than the defence, which is why each has a control that succeeds where it is allowed.
package attack
