package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/coder/websocket"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Verb does what a kind offers beside changing its objects, such as start and stop of an environment. The object as it is then lands in out.
func Verb(ctx context.Context, c *Client, kind api.Kind, project, name, verb string, out any, opts ...Option) error {
	return VerbWith(ctx, c, kind, project, name, verb, nil, out, opts...)
}

// VerbWith is Verb with something to say.
func VerbWith(ctx context.Context, c *Client, kind api.Kind, project, name, verb string, in, out any, opts ...Option) error {
	p, err := objectPath(kind, name)
	if err != nil {
		return err
	}
	return c.write(ctx, http.MethodPost, p+"/"+verb, inProject(project, opts...), in, out)
}

// View reads a page of a kind's own about one object, such as the activity of an environment, into out.
func View(ctx context.Context, c *Client, kind api.Kind, project, name, view string, out any) error {
	p, err := objectPath(kind, name)
	if err != nil {
		return err
	}
	return c.read(ctx, p+"/"+view, inProject(project), out)
}

// TerminalOptions say which process a terminal is opened beside, and what runs in it.
type TerminalOptions struct {
	Kind          api.Kind
	Project, Name string
	Rank          int
	Wish          terminal.Wish // its type is set here
}

// Terminal is an open one. Receive is one goroutine's; the others are safe for concurrent use.
type Terminal struct {
	ws *websocket.Conn
	mu sync.Mutex // of writers, so that input keeps its order
}

// OpenTerminal dials, and says what it wants; the first Receive says whether that is had. The shell outlives the connection: who dials again
// with the same session finds it.
func OpenTerminal(ctx context.Context, c *Client, o TerminalOptions) (*Terminal, error) {
	path, err := objectPath(o.Kind, o.Name)
	if err != nil {
		return nil, err
	}
	q := inProject(o.Project)
	if o.Rank != 0 {
		q.Set("rank", strconv.Itoa(o.Rank))
	}
	ws, err := dialWebSocket(ctx, c, path+"/terminal", q)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(terminal.MaxMessage + 1<<10)
	t := &Terminal{ws: ws}
	o.Wish.Type = terminal.Open
	if err := t.Say(ctx, o.Wish); err != nil {
		t.Hang()
		return nil, err
	}
	return t, nil
}

// Write sends input.
func (t *Terminal) Write(ctx context.Context, data []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(data) > 0 {
		n := min(len(data), terminal.MaxMessage/4)
		if err := t.ws.Write(ctx, websocket.MessageBinary, data[:n]); err != nil {
			return cut(err)
		}
		data = data[n:]
	}
	return nil
}

// Say sends a word.
func (t *Terminal) Say(ctx context.Context, w terminal.Wish) error {
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return cut(t.ws.Write(ctx, websocket.MessageText, data))
}

// Receive is the next of what was printed (errors: on the standard error), or of what the server says. A refusal of the server is its
// fault; a connection that broke is fault Unavailable with reason Cut.
func (t *Terminal) Receive(ctx context.Context) (data []byte, isErrors bool, news *terminal.News, err error) {
	kind, message, err := t.ws.Read(ctx)
	if err != nil {
		return nil, false, nil, cut(err)
	}
	if kind == websocket.MessageBinary {
		if len(message) == 0 {
			return nil, false, nil, nil
		}
		return message[1:], message[0] == terminal.Errors, nil, nil
	}
	var n terminal.News
	if err := json.Unmarshal(message, &n); err != nil {
		return nil, false, nil, cut(err)
	}
	if n.Type == terminal.Error {
		return nil, false, nil, fault.New(codeOfStatus(n.Code), n.Reason, fault.Text{EN: n.Message, ZH: n.Message})
	}
	return nil, false, &n, nil
}

// Hang closes the connection; the shell goes on.
func (t *Terminal) Hang() { _ = t.ws.CloseNow() }

// ReasonCut is the reason of the fault when a terminal's connection broke.
const ReasonCut = "Cut"

func cut(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fault.New(fault.Unavailable, ReasonCut, fault.T("The connection to the terminal broke.", "与终端的连接已中断。")).Because(err)
}
