// Package exchange gives a replica its link token for proof by somebody else of who it is: a pod shows what its cluster gave it.
//
// Place: layer 4, beside the link. Promise: a token is given for one replica of a current attempt, and only on the word of whoever vouches;
// nothing is kept, and nothing is said of why a stranger was refused. Enemies: a secret for each replica, a proof that works twice as long as
// it must.
package exchange
