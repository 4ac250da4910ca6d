package sshrelay

import (
	"errors"
	"io"

	"github.com/hashicorp/yamux"
)

// Session is the door's side. Safe for concurrent use.
type Session struct{ mux *yamux.Session }

// NewSession speaks to the program over its standard input and output; Close closes conn.
func NewSession(conn io.ReadWriteCloser) (*Session, error) {
	mux, err := yamux.Client(conn, config())
	if err != nil {
		return nil, err
	}
	return &Session{mux}, nil
}

// Close ends everything.
func (s *Session) Close() error { return s.mux.Close() }

// Ask has the program do something. What listens does so until the stream is closed; the stream of KindDial is the connection.
func (s *Session) Ask(r Request) (Stream, Answer, error) {
	var a Answer
	st, err := s.mux.OpenStream()
	if err != nil {
		return Stream{}, a, err
	}
	c := Stream{st}
	if err = writeHead(c, r); err == nil {
		err = readHead(c, &a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		_ = c.Close()
		return Stream{}, a, err
	}
	return c, a, nil
}

// Next waits for a connection that somebody made; an error is that there are no more.
func (s *Session) Next() (Stream, Arrival, error) {
	for {
		st, err := s.mux.AcceptStream()
		if err != nil {
			return Stream{}, Arrival{}, err
		}
		c := Stream{st}
		var a Arrival
		if readHead(c, &a) == nil {
			return c, a, nil
		}
		_ = c.Close()
	}
}
