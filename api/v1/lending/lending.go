// Package lending is the words for work inside of which other work runs.
//
// Place: layer 1, vocabulary. Promise: one place says who may run inside whom. Enemies: a private environment in which others train.
package lending

// Terms say whether others may run inside some work: inside one that has one replica, and a place of its own.
type Terms struct {
	Lends   bool // while it runs
	Private bool // only its owner's may
	// Home is whose home they work in, by its id; "": they work where its code is.
	Home string
}

// Admit says that what belongs to this user may run inside what belongs to that owner, when it runs.
func (t Terms) Admit(owner, user string) bool { return t.Lends && (!t.Private || owner == user) }
