package serving

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// ServiceTraffic is how requests are shared among revisions. Without it a new revision takes over replica by replica.
type ServiceTraffic struct {
	Canary  *Canary       `json:"canary,omitempty" doc:"A new revision gets a growing share, and is promoted or rolled back by what its answers are like."`
	Rules   []TrafficRule `json:"rules,omitempty" maxItems:"32" doc:"Which requests go to the new revision or the stable one, whatever the share; the first that fits counts. For A/B tests."`
	Promote *Promotion    `json:"promote,omitempty" doc:"A step that somebody wants passed, whatever it was like so far; written by fermi service promote."`
	Shadow  *Shadow       `json:"shadow,omitempty" doc:"The new revision gets copies of requests; its answers go to nobody."`
}

// Promotion is somebody's word that a canary goes on.
type Promotion struct {
	Revision int `json:"revision"`
	Step     int `json:"step" minimum:"0" maximum:"100" doc:"Steps below this one are passed."`
}

// Canary is how a new revision takes over.
type Canary struct {
	Steps       []int        `json:"steps,omitempty" maxItems:"20" doc:"Percent of requests that the new revision gets, step by step; 5, 50, 100 when absent."`
	Every       api.Duration `json:"every,omitempty" doc:"How long each step lasts; 1m when absent."`
	MinRequests int          `json:"minRequests,omitempty" minimum:"0" maximum:"1000000" doc:"So many requests it answers in each step before it is judged; 20 when absent."`
	// The bounds of a good revision.
	MaxErrors  float64      `json:"maxErrors,omitempty" minimum:"0" maximum:"100" doc:"Percent of its answers that may be failures (5xx, or cut); 1 when absent."`
	MaxLatency api.Duration `json:"maxLatency,omitempty" doc:"95 of 100 answers begin within this; no bound when absent."`
	Check      string       `json:"check,omitempty" maxLength:"1024" doc:"Path that a replica of the new revision is asked at each step; any answer but 2xx rolls back."`
	Manual     bool         `json:"manual,omitempty" doc:"Don't go on by itself: each step is said with fermi service promote."`
}

// TrafficRule sends requests that fit all that it names to one track.
type TrafficRule struct {
	Header  string `json:"header,omitempty" maxLength:"256" doc:"Name of a header; fits when it has the value."`
	Cookie  string `json:"cookie,omitempty" maxLength:"256" doc:"Name of a cookie; fits when it has the value."`
	Value   string `json:"value,omitempty" maxLength:"1024" doc:"Of the header or cookie; any when absent."`
	User    string `json:"user,omitempty" maxLength:"256" doc:"The user for whom the key speaks."`
	Percent int    `json:"percent,omitempty" minimum:"0" maximum:"100" doc:"Of users: the same ones always, by a hash of their names."`
	To      Track  `json:"to" enum:"canary,stable"`
}

// Shadow is copying requests.
type Shadow struct {
	Percent int `json:"percent" minimum:"1" maximum:"100" doc:"Of requests, which the new revision gets as well."`
}

// Track is the stable revision or the newest one.
type Track string

// The tracks.
const (
	TrackCanary Track = "canary"
	TrackStable Track = "stable"
)

// CanaryStatus is how far a new revision is.
type CanaryStatus struct {
	Revision int       `json:"revision" doc:"The new one."`
	Stable   int       `json:"stable" doc:"The one that it is to replace."`
	Step     int       `json:"step" doc:"Counted from 0."`
	Percent  int       `json:"percent" doc:"Of requests that it gets; 0 until one of its replicas answers."`
	Since    time.Time `json:"since" doc:"When the step began."`
	// Base are its counters when the step began.
	Base CanaryCount `json:"base,omitzero"`
	// Verdict ends it: nobody gets the new revision until another one is opened.
	Verdict Verdict `json:"verdict,omitempty" enum:"rolledBack"`
}

// Verdict is what became of a canary.
type Verdict string

// RolledBack is a revision that gets no more requests.
const RolledBack Verdict = "rolledBack"

// CanaryCount are counters of a revision, since its gateways began.
type CanaryCount struct {
	Requests int64 `json:"requests,omitempty"`
	Errors   int64 `json:"errors,omitempty"`
	Slow     int64 `json:"slow,omitempty" doc:"Answers that began later than maxLatency."`
}

// Road is how gateways share requests among revisions: part of the endpoints.
type Road struct {
	Stable  int           `json:"stable,omitempty"`
	Canary  int           `json:"canary,omitempty" doc:"0: there is none."`
	Percent int           `json:"percent,omitempty" doc:"Of requests, to the canary."`
	Rules   []TrafficRule `json:"rules,omitempty"`
	Shadow  int           `json:"shadow,omitempty" doc:"Percent of requests that the canary gets copies of."`
	Zones   []ServiceZone `json:"zones,omitempty" doc:"How requests are shared among zones; absent: zones do not matter."`
}
