package devenv

import (
	"slices"
	"time"
)

// Link is an address by which anybody who has it reaches a port, until it ends or is taken back.
type Link struct {
	ID        string    `json:"id"`
	Port      int       `json:"port"`
	By        string    `json:"by" doc:"Who made it."`
	CreatedAt time.Time `json:"createdAt"`
	EndsAt    time.Time `json:"endsAt"`
}

// The bounds of links.
const (
	MostLinks    = 32
	LongestLink  = 30 * 24 * time.Hour
	ShortestLink = time.Minute
	UsualLink    = 24 * time.Hour
)

// LinkNow is the link with this id that opens a port at this moment; nil: there is none.
func (e *DevEnvironment) LinkNow(id string, port int, now time.Time) *Link {
	i := slices.IndexFunc(e.Spec.Links, func(l Link) bool { return l.ID == id && l.Port == port && now.Before(l.EndsAt) })
	if i < 0 {
		return nil
	}
	return &e.Spec.Links[i]
}
