package server

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
)

// call is one request.
type call struct {
	w       http.ResponseWriter
	r       *http.Request
	rc      *http.ResponseController
	route   *route
	lang    string
	ip      string
	request string // its id
	who     *caller
	tried   string // the name of the token or user that was refused
	q       values
	note    note                        // for the audit
	status  int                         // of the answer; 0: it was not begun
	cut     atomic.Pointer[fault.Error] // see cutOff
	clock   clock.Clock
	stall   time.Duration // how long a peer may take no byte or send none
}

// newCall begins an answer; route is nil where nobody serves the path.
func newCall(w http.ResponseWriter, r *http.Request, rt *route, cl clock.Clock, stall time.Duration) *call {
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		ip = r.RemoteAddr
	}
	c := &call{
		w: w, r: r, rc: http.NewResponseController(w), route: rt, ip: ip, request: strings.ToLower(rand.Text()[:16]),
		lang: language(r.Header.Get("Accept-Language")), clock: cl, stall: stall,
	}
	w.Header().Set("Fermi-Request", c.request)
	return c
}

// begun says that the answer has begun: what fails now can only cut the connection.
func (c *call) begun() bool { return c.status != 0 }

// cutOff ends the bytes of a long answer or body: no read or write that begins or waits outlives it. cut is set
// before the deadlines are moved into the past, and whoever moves them forward looks at cut afterwards.
func (c *call) cutOff(why *fault.Error) {
	c.cut.Store(why)
	_ = c.rc.SetReadDeadline(time.Unix(1, 0))
	_ = c.rc.SetWriteDeadline(time.Unix(1, 0))
}

// wasCut says why the bytes were cut off; nil when they were not.
func (c *call) wasCut() error {
	if e := c.cut.Load(); e != nil {
		return e
	}
	return nil
}

// tell notes an event; it is written after the commit, together with the audit.
func (c *call) tell(o api.Object, reason string, text fault.Text) {
	m := o.GetMeta()
	c.note.told = append(c.note.told, history.Event{
		Time: c.clock.Now().UTC(), Kind: o.Kind(), Project: m.Project, Name: m.Name, ID: m.ID,
		Type: "Normal", Reason: reason, Message: text, Actor: c.who.name(),
	})
}

// note is what history will say about a call: its audit and its events. Objects are kept as they are; what nobody
// may see is taken out when they are written.
type note struct {
	kind              api.Kind
	project, name, id string
	was, is           api.Object
	what              string // JSON in the place of is, where it is no object
	skip              bool
	told              []history.Event
}

// names says what a call is about before it is found.
func (n *note) names(kind api.Kind, name string) { n.kind, n.name = kind, clip(name, 128) }

func (n *note) about(o api.Object) {
	m := o.GetMeta()
	n.kind, n.project, n.name, n.id = o.Kind(), clip(m.Project, 128), clip(m.Name, 128), m.ID
}

func (n *note) before(o api.Object) { n.about(o); n.was = o }
func (n *note) after(o api.Object)  { n.about(o); n.is = o }
