// Package hold is the vocabulary of replicas that were given up without proof of their end.
//
// Place: layer 1, part of api/v1. Promise: a replica that is held keeps its devices closed until somebody answers for it. Enemies: a
// hold that is forgotten with its task.
package hold

import (
	"slices"
	"time"
)

// Hold is a replica that was given up without proof of its end: it said nothing, or an operator said that its node is gone. For its
// task it has ended; its devices are closed until its launcher says that it stopped, its machine was restarted, or an operator says so.
type Hold struct {
	Replica string    `json:"replica"`
	Owner   string    `json:"owner" doc:"The id of whose replica it is."`
	Name    string    `json:"name,omitempty" doc:"The name of whose replica it is."`
	Project string    `json:"project,omitempty"`
	Devices []int     `json:"devices,omitempty" doc:"By index."`
	Reason  string    `json:"reason" doc:"LauncherSilent: it was replaced or is taken for lost; NodeLost: an operator said so."`
	Heard   time.Time `json:"heard" doc:"When its launcher said something for the last time."`
	Since   time.Time `json:"since"`
	BootID  string    `json:"bootId,omitempty" doc:"Of the machine when it was given up; nothing outlives another one."`
	// Released: somebody answers for it. The hold stays until the engine knows nothing of the replica any more, so that
	// its task does not wait for it again.
	Released bool `json:"released,omitempty" doc:"An operator said that it is gone, or its machine was restarted: its devices are open."`
}

// The reasons.
const (
	Silent = "LauncherSilent"
	Lost   = "NodeLost"
)

// List are the holds of a node.
type List []Hold

// Closed is the mask of devices that they keep closed.
func (l List) Closed() (mask uint64) {
	for i := range l {
		if l[i].Released {
			continue
		}
		for _, d := range l[i].Devices {
			mask |= 1 << d
		}
	}
	return mask
}

// Of is that of a replica; nil: it has none.
func (l List) Of(replica string) *Hold {
	if i := slices.IndexFunc(l, func(h Hold) bool { return h.Replica == replica }); i >= 0 {
		return &l[i]
	}
	return nil
}
