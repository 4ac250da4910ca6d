package agentengine

import (
	"encoding/json"
	"errors"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Frame is one message. Body is JSON; fields that one end does not know are ignored there, so that neighbouring versions understand each other.
type Frame struct {
	Seq  uint64 // of an order, and of its answer; else 0
	Kind string
	Body []byte
}

// Stream is one end of a connection. Recv is one goroutine's, Send another's. Send may block; the end of the connection ends both.
type Stream interface {
	Send(Frame) error
	Recv() (Frame, error)
}

// The kinds of frames from an agent.
const (
	kindHello = "hello" // Hello, once, the first
	kindSeen  = "seen"  // engine.Observation
	kindGone  = "gone"  // engine.Name
	kindNode  = "node"  // api.Node
	kindWhole = "whole" // everything that the machine's engine knew was said
	kindDone  = "done"  // answer: with Seq of the order
	kindBeat  = "beat"  // the time by its clock; from both ends
	kindTrips = "trips" // []Trip
)

// The kinds of frames from a server.
const (
	kindLead     = "lead"     // lead, once, the first
	kindSettings = "settings" // Settings, whenever they change
	kindRefuse   = "refuse"   // fault of the one that the server does not take; the last
	kindStart    = "start"    // start
	kindStop     = "stop"     // stop
	kindRemove   = "remove"   // engine.Name
	kindPoke     = "poke"     // engine.Name
	kindErase    = "erase"    // id of a task whose checkpoints on the machine's disk are to go
	kindUpgrade  = "upgrade"  // Program
	kindProbe    = "probe"    // []Reach
)

// Beats. Each end says something that often; one that has heard nothing for Silent takes the other to be away.
const (
	BeatEvery = 2 * time.Second
	Silent    = 10 * time.Second
)

// Hello is what an agent says of itself.
type Hello struct {
	Version   string    `json:"version"`
	MachineID string    `json:"machineId,omitempty"`
	BootID    string    `json:"bootId,omitempty"`
	Instance  string    `json:"instance"` // of this agent's process
	Address   string    `json:"address"`  // where other machines reach this one
	Now       time.Time `json:"now"`      // by its clock
	Epoch     int64     `json:"epoch"`    // the highest that it obeyed
	Node      api.Node  `json:"node"`
	// Homes are the owners of homes on its disk.
	Homes []string `json:"homes,omitempty"`
	// Upgrade is how the last one went that was asked for.
	Upgrade *joined.Upgrade `json:"upgrade,omitempty"`
}

// Program is what an agent is to replace its own by.
type Program struct {
	ID       string `json:"id"` // of the asking
	Version  string `json:"version"`
	Platform string `json:"platform"` // as "linux/amd64"
	Digest   string `json:"digest"`   // SHA-256, hexadecimal
	Size     int64  `json:"size"`
}

// Settings are what an agent is told beside orders.
type Settings struct {
	// Targets are where servers are reached over the link, as endpoint writes them.
	Targets []string `json:"targets,omitempty"`
	// Shared is the store that checkpoints of all machines go to, as record.SharedTier; Keys is what its file of credentials holds.
	Shared json.RawMessage `json:"shared,omitempty"`
	Keys   []byte          `json:"keys,omitempty"`
	// Mark is what a file of that name in a shared folder holds, by which an agent knows that it sees the same folder.
	Mark string `json:"mark,omitempty"`
	// ImageMost is how many bytes of images each project may have on a machine; absent: no limit.
	ImageMost map[string]int64 `json:"imageMost,omitempty"`
	// Sealing is what goes between zones encrypted; nil: nothing does.
	Sealing *Sealing `json:"sealing,omitempty"`
}

// Sealing is which zones reach each other encrypted, and where their machines are.
type Sealing struct {
	Pairs    [][2]string `json:"pairs"` // of zones
	Machines []Machine   `json:"machines"`
}

// Machine is one of a zone that is reached encrypted.
type Machine struct {
	Node      string   `json:"node"`
	Zone      string   `json:"zone"`
	Key       string   `json:"key,omitempty"` // ""; it can't, and is not reached
	At        string   `json:"at,omitempty"`  // host:port of its WireGuard
	Addresses []string `json:"addresses"`
}

type lead struct {
	Epoch    int64    `json:"epoch"`
	Settings Settings `json:"settings"`
}

type start struct {
	Replica engine.Replica `json:"replica"`
	Token   string         `json:"token"` // of its launcher
}

type stop struct {
	Name  engine.Name   `json:"name"`
	Grace time.Duration `json:"grace"`
}

// refusal is a fault on its way.
type refusal struct {
	Code    fault.Code `json:"code,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Message fault.Text `json:"message,omitzero"`
	Hint    fault.Text `json:"hint,omitzero"`
	// Targets are where servers are reached, the leader among them; absent: as known.
	Targets []string `json:"targets,omitempty"`
}

func refusedBy(err error) refusal {
	if err == nil {
		return refusal{}
	}
	e := fault.From(err)
	return refusal{Code: e.Code, Reason: e.Reason, Message: e.Message, Hint: e.Hint}
}

func (r refusal) err() error {
	if r.Code == "" {
		return nil
	}
	return fault.New(r.Code, r.Reason, r.Message).WithHint(r.Hint)
}

// Refuse is the last frame to an agent that is not taken.
func Refuse(err error) Frame { return frame(0, kindRefuse, refusedBy(err)) }

// SendOn is the last frame to an agent that another server takes: one of these targets, as endpoint writes them.
func SendOn(err error, targets []string) Frame {
	r := refusedBy(err)
	r.Targets = targets
	return frame(0, kindRefuse, r)
}

// frame makes one; what it is made of is ours, and always encodes.
func frame(seq uint64, kind string, body any) Frame {
	raw, err := json.Marshal(body)
	if err != nil {
		raw = nil // the other end refuses it
	}
	return Frame{Seq: seq, Kind: kind, Body: raw}
}

func read(f Frame, into any) error {
	if err := json.Unmarshal(f.Body, into); err != nil {
		return errors.Join(errors.New("a frame of kind "+f.Kind+" can't be read"), err)
	}
	return nil
}

// box is what waits to be sent: Put never blocks, and one goroutine sends.
type box struct {
	wake  chan struct{}
	queue chan []Frame // holds one slice
}

func newBox() *box {
	b := &box{wake: make(chan struct{}, 1), queue: make(chan []Frame, 1)}
	b.queue <- nil
	return b
}

func (b *box) put(f ...Frame) {
	b.queue <- append(<-b.queue, f...)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *box) take() []Frame {
	all := <-b.queue
	b.queue <- nil
	return all
}

// send sends what is put until the stream or over ends it, and a beat with the time every so often.
func (b *box) send(s Stream, over <-chan struct{}, c clock.Clock) error {
	beat := c.After(BeatEvery)
	for {
		for _, f := range b.take() {
			if err := s.Send(f); err != nil {
				return err
			}
		}
		select {
		case <-over:
			return nil
		case <-b.wake:
		case <-beat:
			beat = c.After(BeatEvery)
			if err := s.Send(frame(0, kindBeat, c.Now())); err != nil {
				return err
			}
		}
	}
}
