package sshdoor

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/talk"
	"github.com/fermi-cluster/fermi/internal/link/talk/talkpb"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/terminal"
)

const (
	maxEnv  = 64
	maxText = 64 << 10 // of a variable or a command
	// exitRefused is the status of what could not be started, as ssh has it for its own failures.
	exitRefused = 255
)

// sftpServer is what the sftp subsystem runs: this very program, as the tenant, behind the wall.
var sftpServer = []string{"fermi", "sftp-server"}

// serve answers requests and channels until the connection ends, in the order in which they came: who asked for a forward and then for a command
// hears of the forward before the command may end.
func (v *visit) serve(ctx context.Context, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request, ways *relay) {
	room := make(chan struct{}, mostChannels)
	for {
		select {
		case q, ok := <-requests:
			if !ok {
				requests = nil
				continue
			}
			ways.answer(q)
		case c, ok := <-channels:
			if !ok {
				return
			}
			for len(requests) > 0 { // they were there before it
				ways.answer(<-requests)
			}
			v.open(ctx, c, ways, room)
		}
	}
}

// open answers a channel while there is room for it.
func (v *visit) open(ctx context.Context, c ssh.NewChannel, ways *relay, room chan struct{}) {
	select {
	case room <- struct{}{}:
	default:
		_ = c.Reject(ssh.ResourceShortage, "too many channels")
		return
	}
	ways.work.Go(func() {
		defer func() { <-room }()
		switch c.ChannelType() {
		case "session":
			v.session(ctx, c, ways)
		case "direct-tcpip":
			v.forward(ctx, c)
		case "direct-streamlocal@openssh.com":
			ways.dial(c)
		default:
			_ = c.Reject(ssh.UnknownChannelType, "not here")
		}
	})
}

// line begins a conversation with the environment's launcher, as it runs now.
func (v *visit) line(ctx context.Context) (talk.Stream, func(), error) {
	if v.door.Rooms.Lines == nil {
		return nil, nil, talk.ErrNotAttached
	}
	now, err := v.door.Rooms.Finder.Truth.Find(ctx, api.KeyOf(v.env), 0)
	if err != nil {
		return nil, nil, err
	}
	work, err := terminal.Running(objects.Found{Object: now})
	if err != nil {
		return nil, nil, err
	}
	replica, err := v.door.Rooms.Lines.Line(ctx, work, 0)
	if err != nil {
		return nil, nil, err
	}
	return v.door.Rooms.Lines.Talk(ctx, replica)
}

// forward is a connection of -L or -D.
func (v *visit) forward(ctx context.Context, c ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(c.ExtraData(), &to); err != nil || to.Port > 65535 {
		_ = c.Reject(ssh.ConnectionFailed, "no address")
		return
	}
	conn, err := talk.Dial(ctx, v.line, to.Host, int(to.Port))
	if err != nil {
		_ = c.Reject(ssh.ConnectionFailed, fault.From(err).Message.EN)
		return
	}
	defer conn.Close()
	ch, requests, err := c.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	talk.Joint(ch, conn)
}

// wish is what a session asks for before it begins.
type wish struct {
	open  *talkpb.Open
	agent func() (path string, err error)
}

// session is a shell, a command or a subsystem.
func (v *visit) session(ctx context.Context, c ssh.NewChannel, ways *relay) {
	ch, requests, err := c.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	w := &wish{&talkpb.Open{Session: "ssh-" + rand.Text(), Bound: true, Rank: -1}, ways.agent}
	for r := range requests {
		begins, ok := w.take(r)
		if !begins || !ok {
			if r.WantReply {
				_ = r.Reply(ok, nil)
			}
			continue
		}
		if r.WantReply {
			_ = r.Reply(true, nil)
		}
		v.run(ctx, ch, requests, w.open)
		return
	}
}

// take hears one request: whether it begins the session, and whether it is heard at all.
func (w *wish) take(r *ssh.Request) (begins, ok bool) {
	switch r.Type {
	case "env":
		var e struct{ Name, Value string }
		if ssh.Unmarshal(r.Payload, &e) != nil || len(w.open.Env) >= maxEnv || len(e.Name)+len(e.Value) > maxText || strings.Contains(e.Name+e.Value, "\x00") {
			return false, false
		}
		w.open.Env = append(w.open.Env, e.Name+"="+e.Value)
		return false, true
	case "pty-req":
		var p struct {
			Term                         string
			Columns, Rows, Width, Height uint32
			Modes                        string
		}
		if ssh.Unmarshal(r.Payload, &p) != nil {
			return false, false
		}
		w.open.Tty, w.open.Columns, w.open.Rows = true, side(p.Columns), side(p.Rows)
		if isTerm(p.Term) {
			w.open.Term = p.Term
		}
		return false, true
	case "window-change":
		if size := resized(r); size != nil {
			w.open.Columns, w.open.Rows = size.GetColumns(), size.GetRows()
		}
		return false, true
	case "auth-agent-req@openssh.com":
		at, err := w.agent()
		if err != nil || len(w.open.Env) >= maxEnv {
			return false, false
		}
		w.open.Env = append(w.open.Env, "SSH_AUTH_SOCK="+at)
		return false, true
	case "shell":
		return true, true
	case "exec":
		var e struct{ Line string }
		if ssh.Unmarshal(r.Payload, &e) != nil || len(e.Line) > maxText || strings.Contains(e.Line, "\x00") {
			return true, false
		}
		w.open.Line = e.Line // an empty one is a shell, as with others
		return true, true
	case "subsystem":
		var e struct{ Name string }
		if ssh.Unmarshal(r.Payload, &e) != nil || e.Name != "sftp" {
			return true, false
		}
		w.open.Command, w.open.Tty = sftpServer, false
		return true, true
	}
	return false, false // x11-req, and what is not known
}

func side(n uint32) int32 { return int32(min(n, 4096)) }

func isTerm(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".+_-", r))
	})
}

func resized(r *ssh.Request) *talkpb.Resize {
	var p struct{ Columns, Rows, Width, Height uint32 }
	if ssh.Unmarshal(r.Payload, &p) != nil {
		return nil
	}
	return &talkpb.Resize{Columns: side(p.Columns), Rows: side(p.Rows)}
}

// run carries a session to its end.
func (v *visit) run(ctx context.Context, ch ssh.Channel, requests <-chan *ssh.Request, open *talkpb.Open) {
	refuse := func(err error) {
		text := words(err)
		if open.GetTty() {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		_, _ = io.WriteString(ch.Stderr(), text)
		_ = exits(ch, &talkpb.Exit{Code: exitRefused})
	}
	stream, end, err := v.line(ctx)
	if err != nil {
		refuse(err)
		return
	}
	defer end()
	line := &sender{stream: stream}
	if err := line.say(&talkpb.Frame{Message: &talkpb.Frame_Open{Open: open}}); err != nil {
		refuse(talk.ErrNotAttached)
		return
	}
	defer context.AfterFunc(ctx, end)()
	go func() { // ends with the channel
		listen(ch, line)
	}()
	go func() {
		for r := range requests {
			line.request(r)
		}
		end() // the channel is closed: the launcher hangs up on what runs
	}()
	err = tell(ch, stream)
	var gone *fault.Error
	switch {
	case errors.As(err, &gone):
		refuse(gone)
	case err != nil:
		refuse(talk.ErrNotAttached)
	}
}

// sender sends frames, one at a time.
type sender struct {
	mu     sync.Mutex
	stream talk.Stream
}

func (s *sender) say(f *talkpb.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(f)
}

// request hands over what a client wants of a session that runs.
func (s *sender) request(r *ssh.Request) {
	ok := false
	switch r.Type {
	case "window-change":
		if size := resized(r); size != nil {
			ok = s.say(&talkpb.Frame{Message: &talkpb.Frame_Resize{Resize: size}}) == nil
		}
	case "signal":
		var e struct{ Name string }
		if ssh.Unmarshal(r.Payload, &e) == nil && len(e.Name) <= 16 {
			ok = s.say(&talkpb.Frame{Message: &talkpb.Frame_Signal{Signal: &talkpb.Signal{Name: "SIG" + e.Name}}}) == nil
		}
	}
	if r.WantReply {
		_ = r.Reply(ok, nil)
	}
}

// listen hands over what the client types, and its end.
func listen(ch io.Reader, line *sender) {
	for {
		buf := make([]byte, 32<<10)
		n, err := ch.Read(buf)
		if n > 0 && line.say(&talkpb.Frame{Message: &talkpb.Frame_Data{Data: &talkpb.Data{Data: buf[:n]}}}) != nil {
			return
		}
		if err != nil {
			_ = line.say(&talkpb.Frame{Message: &talkpb.Frame_End{End: &talkpb.End{}}})
			return
		}
	}
}

// tell hands over what is printed, and how it ended; an error is that there is nothing, or no more.
func tell(ch ssh.Channel, stream talk.Stream) error {
	for {
		f, err := stream.Recv()
		if err != nil {
			return err
		}
		switch m := f.GetMessage().(type) {
		case *talkpb.Frame_Data:
			var to io.Writer = ch
			if m.Data.GetErrors() {
				to = ch.Stderr()
			}
			if data := m.Data.GetData(); len(data) > 0 {
				if _, err := to.Write(data); err != nil {
					return nil //nolint:nilerr // the client left
				}
			}
		case *talkpb.Frame_Exit:
			_ = ch.CloseWrite()
			return exits(ch, m.Exit)
		case *talkpb.Frame_Refused:
			return fault.New(fault.Conflict, m.Refused.GetReason(), fault.Text{EN: m.Refused.GetEn(), ZH: m.Refused.GetZh()})
		}
	}
}

// exits tells a client how it ended.
func exits(ch ssh.Channel, e *talkpb.Exit) error {
	if name, ok := strings.CutPrefix(e.GetSignal(), "SIG"); ok {
		_, err := ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal   string
			Dumped   bool
			Message  string
			Language string
		}{name, false, "", ""}))
		return ignore(err)
	}
	_, err := ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(e.GetCode())}))
	return ignore(err)
}

// ignore is for a client that has left: there is nobody to tell.
func ignore(error) error { return nil }
