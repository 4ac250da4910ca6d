package rest

import (
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
)

// Call is one request.
type Call struct {
	W       http.ResponseWriter
	R       *http.Request
	Control *http.ResponseController
	Route   *Route
	Lang    string
	IP      string
	Request string // its id
	Who     *access.Caller
	Tried   string // the name of the token or user that was refused
	Query   Values
	Note    Note                        // for the audit
	Status  int                         // of the answer; 0: it was not begun
	cut     atomic.Pointer[fault.Error] // see CutOff
	clock   clock.Clock
	stall   time.Duration // how long a peer may take no byte or send none
}

// NewCall begins an answer; route is nil where nobody serves the path.
func NewCall(w http.ResponseWriter, r *http.Request, rt *Route, cl clock.Clock, stall time.Duration) *Call {
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		ip = r.RemoteAddr
	}
	c := &Call{
		W: w, R: r, Control: http.NewResponseController(w), Route: rt, IP: ip, Request: strings.ToLower(rand.Text()[:16]),
		Lang: Language(r.Header.Get("Accept-Language")), clock: cl, stall: stall,
	}
	w.Header().Set("Fermi-Request", c.Request)
	return c
}

// Begun says that the answer has begun: what fails now can only cut the connection.
func (c *Call) Begun() bool { return c.Status != 0 }

// CutOff ends the bytes of a long answer or body: no read or write that begins or waits outlives it. cut is set
// before the deadlines are moved into the past, and whoever moves them forward looks at cut afterwards.
func (c *Call) CutOff(why *fault.Error) {
	c.cut.Store(why)
	_ = c.Control.SetReadDeadline(time.Unix(1, 0))
	_ = c.Control.SetWriteDeadline(time.Unix(1, 0))
}

// WasCut says why the bytes were cut off; nil when they were not.
func (c *Call) WasCut() error {
	if e := c.cut.Load(); e != nil {
		return e
	}
	return nil
}

// Tell notes an event; it is written after the commit, together with the audit.
func (c *Call) Tell(o api.Object, reason string, text fault.Text) {
	m := o.GetMeta()
	project := m.Project
	if x, ok := o.(interface{ IsPrivate() bool }); ok && x.IsPrivate() {
		project = "" // a project's events are for all its members; who may read the object finds its own
	}
	c.Note.Told = append(c.Note.Told, history.Event{
		Time: c.clock.Now().UTC(), Kind: o.Kind(), Project: project, Name: m.Name, ID: m.ID,
		Type: "Normal", Reason: reason, Message: text, Actor: c.Who.Name(),
	})
}

// Note is what history will say about a call: its audit and its events. Objects are kept as they are; what nobody
// may see is taken out when they are written.
type Note struct {
	Kind              api.Kind
	Project, Name, ID string
	Was, Is           api.Object
	What              string // JSON in the place of is, where it is no object
	Skip              bool
	Told              []history.Event
}

// Names says what a call is about before it is found.
func (n *Note) Names(kind api.Kind, name string) { n.Kind, n.Name = kind, refuse.Clip(name, 128) }

func (n *Note) About(o api.Object) {
	m := o.GetMeta()
	n.Kind, n.Project, n.Name, n.ID = o.Kind(), refuse.Clip(m.Project, 128), refuse.Clip(m.Name, 128), m.ID
}

func (n *Note) Before(o api.Object) { n.About(o); n.Was = o }
func (n *Note) After(o api.Object)  { n.About(o); n.Is = o }
