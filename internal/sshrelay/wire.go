package sshrelay

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/hashicorp/yamux"
)

// What is wished for.
const (
	KindTCP   = "tcp"   // listen on a port of the loopback
	KindUnix  = "unix"  // listen on a socket
	KindAgent = "agent" // listen on a socket of our own
	KindDial  = "dial"  // connect to a socket
)

const (
	// maxHead bounds a request, an answer and an arrival.
	maxHead = 8 << 10
	// mostListeners is how many a connection may have.
	mostListeners = 32
	// mostStreams is how many forwarded connections there may be at a time.
	mostStreams = 256
)

// Request is a wish; its stream ends what listens.
type Request struct {
	Kind string `json:"kind"`
	ID   string `json:"id,omitempty"` // the door's, for arrivals
	Port int    `json:"port,omitempty"`
	Path string `json:"path,omitempty"`
}

// Answer is what became of it.
type Answer struct {
	Port  int    `json:"port,omitempty"`
	Path  string `json:"path,omitempty"`
	Error string `json:"error,omitempty"`
}

// Arrival begins the stream of a connection that somebody made.
type Arrival struct {
	ID   string `json:"id"`
	Host string `json:"host,omitempty"`
	Port int    `json:"port,omitempty"`
}

func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false // the launcher's link has its own
	c.StreamCloseTimeout = 0  // one direction may be open for ever
	c.ConnectionWriteTimeout = time.Minute
	c.LogOutput = io.Discard
	return c
}

var errHead = errors.New("not the words of a relay")

func writeHead(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil || len(data) > maxHead {
		return errors.Join(errHead, err)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(data))), data...))
	return err
}

func readHead(r io.Reader, v any) error {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint16(size[:])
	if n > maxHead {
		return errHead
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return err
	}
	if json.Unmarshal(data, v) != nil {
		return errHead
	}
	return nil
}

// Stream is a connection of which one direction can end before the other.
type Stream struct{ s *yamux.Stream }

// Read gives what comes.
func (c Stream) Read(p []byte) (int, error) { return c.s.Read(p) }

// Write sends.
func (c Stream) Write(p []byte) (int, error) { return c.s.Write(p) }

// CloseWrite says that no more comes.
func (c Stream) CloseWrite() error { return c.s.Close() }

// Close ends both directions, and whoever reads here.
func (c Stream) Close() error {
	return errors.Join(c.s.Close(), c.s.SetDeadline(time.Unix(1, 0)))
}
