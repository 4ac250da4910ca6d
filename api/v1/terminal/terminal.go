// Package terminal is the language of terminals between a client and a server, over a WebSocket.
//
// Place: layer 1, vocabulary of the API. Text messages are JSON: Wish from the client, News from the server. Binary messages are bytes: from the
// client what is typed, from the server one byte that says which stream (Out or Errors) and then what was printed.
// Promise: the first message of a client is its open, the last of a server is exit or error. Enemies: a message that is both.
package terminal

// The types of a Wish.
const (
	Open   = "open"   // first, exactly once
	Resize = "resize" // columns and rows
	End    = "end"    // no more input comes; without a terminal
	Close  = "close"  // hang up on the shell
	Signal = "signal" // to its process group
)

// Wish is what a client says.
type Wish struct {
	Type    string   `json:"type"`
	Session string   `json:"session,omitempty"` // of open: the client's choice; one that is there is attached to
	Attach  bool     `json:"attach,omitempty"`  // of open: only one that is there
	Command []string `json:"command,omitempty"` // of open; none: a login shell
	TTY     bool     `json:"tty,omitempty"`     // of open
	Term    string   `json:"term,omitempty"`    // of open: $TERM
	From    int64    `json:"from,omitempty"`    // of open: bytes of its output that the client has
	Columns int      `json:"columns,omitempty"`
	Rows    int      `json:"rows,omitempty"`
	Name    string   `json:"name,omitempty"` // of signal: SIGINT
}

// The types of News.
const (
	Opened = "opened"
	Exit   = "exit"
	Error  = "error"
)

// News is what a server says.
type News struct {
	Type    string `json:"type"`
	Session string `json:"session,omitempty"` // of opened
	Fresh   bool   `json:"fresh,omitempty"`   // of opened: it was begun just now
	TTY     bool   `json:"tty,omitempty"`     // of opened
	From    int64  `json:"from,omitempty"`    // of opened: the offset of the output that follows; larger than asked for: some is lost
	Code    int    `json:"code"`              // of exit, 128 and the signal's number where one ended it; of error: the HTTP status
	Signal  string `json:"signal,omitempty"`
	Reason  string `json:"reason,omitempty"` // of error
	Message string `json:"message,omitempty"`
	Retry   bool   `json:"retryable,omitempty"` // of error: the same may work later
}

// The first byte of what was printed.
const (
	Out    = 1
	Errors = 2
)

// The subprotocols of the WebSocket. A browser's page can't send a header with a WebSocket: one that has a token and no cookie offers Protocol,
// which the server chooses, and a second word, Bearer and its token.
const (
	Protocol = "fermi.terminal"
	Bearer   = "fermi.bearer."
)

// MaxMessage bounds a message.
const MaxMessage = 256 << 10
