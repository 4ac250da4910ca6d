package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/talk"
	"github.com/fermi-cluster/fermi/internal/link/talk/talkpb"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/stream"
)

// Lines lead to launchers.
type Lines interface {
	// Line is the replica in which a process with this number runs. Fault Conflict: none does now; NotFound: there is no such number.
	Line(ctx context.Context, w api.Work, rank int) (engine.Name, error)
	// Talk begins a conversation with a replica's launcher; end ends it. Fault Unavailable: it can't be reached now.
	Talk(ctx context.Context, name engine.Name) (s talk.Stream, end func(), err error)
}

// Terminals serves them. Safe for concurrent use.
type Terminals struct {
	Finder  *objects.Finder
	Streams *stream.Streams
	Auditor *audit.Auditor
	Lines   Lines // nil: there is no launcher to talk to
	// SoleOwner is who alone may start processes, where projects can't be kept apart; nil or "": all.
	SoleOwner func() string
}

const (
	// sayFor is how long a client may take for one message, and for its first.
	sayFor = 20 * time.Second
	// pingEvery keeps proxies from closing an idle terminal, and notices a client that is gone.
	pingEvery = 30 * time.Second
)

// Routes are those of every kind of work.
func (s *Terminals) Routes(rules *access.Rules) (out []*rest.Route) {
	for _, kind := range api.WorkKinds() {
		row := api.MustInfo(kind)
		id := "openTerminalOf" + string(row.Kind)
		rules.AsWrite(id, row.Kind)
		out = append(out, &rest.Route{
			Method: http.MethodGet, Path: rest.Prefix + "/" + row.Plural + "/{name}/terminal", ID: id, Tag: row.Plural, Kind: row.Kind, Verb: "shell", Look: true, Long: true,
			Summary: "A shell beside its processes, as a WebSocket; see docs/reference/terminals.md.",
			Query:   []rest.Param{rest.ParamProject, {Name: "rank", Form: rest.FormInt, Doc: "Beside which process; 0 when absent."}},
			Media:   "application/octet-stream",
			Handle:  func(ctx context.Context, c *rest.Call) (*rest.Reply, error) { return s.open(ctx, c, row) },
		})
	}
	return out
}

// May refuses who may not enter.
func (s *Terminals) May(ctx context.Context, who *access.Caller, o api.Object) error {
	if who.Owns(o) {
		return s.Finder.Judge.MayWrite(ctx, who, o)
	}
	if who.Enters(o) {
		if s.SoleOwner != nil && s.SoleOwner() != "" { // a shell there reads whatever the machine's owner may, this platform's keys too
			return errSingleTenant
		}
		return s.Finder.Judge.MayWrite(ctx, who, o)
	}
	return fault.New(fault.Forbidden, "NotOwner", fault.T("It belongs to %s; only its owner may enter it.", "该对象属于 %s，只有其所有者可以进入。", o.GetMeta().Owner)).WithHint(
		fault.T("The owner of an environment may share it with the project: spec.shared.", "环境的所有者可将其共享给项目：spec.shared。"))
}

var errSingleTenant = fault.New(fault.Forbidden, "SingleTenant", fault.T(
	"This machine can't keep projects apart, so nobody else may enter what its owner runs on it, shared or not.", "本机无法隔离项目，因此即使已共享，其他人也不能进入机主在其上运行的环境。")).
	WithHint(fault.T("Ask for Fermi to be run as root, or use a zone with containers.", "请让管理员以 root 运行 Fermi，或使用容器可用区。"))

// Running is work that may be entered; fault Conflict where it does not run.
func Running(f objects.Found) (api.Work, error) {
	work, ok := f.Object.(api.Work)
	if !ok || f.Archived {
		return nil, errNotRunning
	}
	if e, ok := work.(interface{ Saves() bool }); ok && e.Saves() {
		return nil, errSaves
	}
	if w := work.Workload(); w.Phase.Finished() || w.Stop {
		return nil, errNotRunning
	}
	return work, nil
}

var errNotRunning = fault.New(fault.Conflict, "NotRunning", fault.T("It does not run; start it first.", "它未在运行，请先启动。"))

var errSaves = fault.New(fault.Conflict, "NotRunning", fault.T("A snapshot of its home is being made; start it when that is done.", "正在创建其主目录的快照，请在完成后启动。"))

func (s *Terminals) open(ctx context.Context, c *rest.Call, row api.KindInfo) (*rest.Reply, error) {
	name := c.R.PathValue("name")
	c.Note.Names(row.Kind, name)
	f, err := s.Finder.Resolve(ctx, c, row, name)
	if err != nil {
		return nil, err
	}
	c.Note.About(f.Object)
	if err := s.May(ctx, c.Who, f.Object); err != nil {
		return nil, err
	}
	work, err := Running(f)
	if err != nil {
		return nil, err
	}
	rank := int(c.Query.Number("rank"))
	if c.R.Header.Get("Upgrade") == "" { // a browser hides why its WebSocket was refused: its page asks in this way
		if s.Lines != nil {
			if _, err := s.Lines.Line(ctx, work, rank); err != nil {
				return nil, err
			}
		}
		return nil, fault.New(fault.Invalid, "WebSocketOnly", fault.T("A terminal is a WebSocket; use fermi env shell, or the console.", "终端使用 WebSocket；请使用 fermi env shell 或控制台。"))
	}
	if s.Lines == nil {
		return nil, talk.ErrNotAttached
	}
	held, end, err := s.Streams.Hold(ctx, c, func(ctx context.Context, who *access.Caller) error {
		now, err := s.Finder.Truth.Find(ctx, api.KeyOf(f.Object), 0)
		if err != nil {
			return err
		}
		return s.May(ctx, who, now)
	})
	if err != nil {
		return nil, err
	}
	defer end()
	replica, err := s.Lines.Line(held, work, rank)
	if err != nil {
		return nil, err
	}
	s.Auditor.RememberRead(c, string(replica))
	ws, err := websocket.Accept(c.W, c.R, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled, Subprotocols: []string{terminal.Protocol}})
	c.Status = http.StatusSwitchingProtocols // or the refusal that Accept has written
	if err != nil {
		return nil, nil //nolint:nilerr // it was answered
	}
	defer ws.CloseNow()
	ws.SetReadLimit(terminal.MaxMessage)
	s.serve(held, ws, replica, rank, c.Lang)
	return nil, nil
}

// serve carries a conversation until it ends, and closes the connection. Contexts that end in the middle of a read or write cut a WebSocket: only the
// client's own end may, and what held says, which is told first.
func (s *Terminals) serve(held context.Context, ws *websocket.Conn, replica engine.Name, rank int, lang string) {
	first, cancel := context.WithTimeout(held, sayFor)
	kind, data, err := ws.Read(first)
	cancel()
	var wish terminal.Wish
	if err != nil {
		return // the client left
	}
	if kind != websocket.MessageText || json.Unmarshal(data, &wish) != nil || wish.Type != terminal.Open {
		farewell(ws, fault.New(fault.Invalid, "BadTerminal", fault.T("The first message of a terminal must be its open.", "终端的第一条消息必须是 open。")), lang)
		return
	}
	line, hangUp, err := s.Lines.Talk(held, replica)
	if err != nil {
		farewell(ws, err, lang)
		return
	}
	defer hangUp()
	if err := line.Send(opening(wish, rank)); err != nil {
		farewell(ws, lost(err), lang)
		return
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(held))
	defer stop()
	var heard sync.WaitGroup
	defer heard.Wait()
	defer ws.CloseNow() // so that the listener ends
	heard.Go(func() {
		listen(ctx, ws, line)
		hangUp() // the launcher's stream ends, and with it the telling below
	})
	defer context.AfterFunc(held, hangUp)()
	go keepAlive(ctx, ws)
	err = tell(ctx, ws, line)
	if cause := context.Cause(held); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	farewell(ws, err, lang)
}

func opening(w terminal.Wish, rank int) *talkpb.Frame {
	return &talkpb.Frame{Message: &talkpb.Frame_Open{Open: &talkpb.Open{
		Session: w.Session, Command: w.Command, Tty: w.TTY, Columns: int32(min(max(w.Columns, 0), 4096)), Rows: int32(min(max(w.Rows, 0), 4096)), Term: w.Term, From: w.From,
		Rank: int32(rank), Attach: w.Attach,
	}}}
}

// lost is a launcher that went away in the middle: the shell is still there.
func lost(err error) error {
	return fault.New(fault.Unavailable, "LineLost", fault.T("The connection to the replica was lost; try again in a moment.", "与副本的连接中断，请稍后重试。")).Because(err)
}

// tell hands what the launcher says to the client.
func tell(ctx context.Context, ws *websocket.Conn, line talk.Stream) error {
	write := func(kind websocket.MessageType, data []byte) error {
		ctx, cancel := context.WithTimeout(ctx, sayFor)
		defer cancel()
		return ws.Write(ctx, kind, data)
	}
	say := func(n terminal.News) error {
		data, err := json.Marshal(n)
		if err == nil {
			err = write(websocket.MessageText, data)
		}
		return err
	}
	for {
		f, err := line.Recv()
		if err != nil {
			return lost(err)
		}
		switch m := f.GetMessage().(type) {
		case *talkpb.Frame_Opened:
			err = say(terminal.News{Type: terminal.Opened, Session: m.Opened.GetSession(), Fresh: m.Opened.GetFresh(), TTY: m.Opened.GetTty(), From: m.Opened.GetFrom()})
		case *talkpb.Frame_Data:
			which := byte(terminal.Out)
			if m.Data.GetErrors() {
				which = terminal.Errors
			}
			err = write(websocket.MessageBinary, append([]byte{which}, m.Data.GetData()...))
		case *talkpb.Frame_Exit:
			_ = say(terminal.News{Type: terminal.Exit, Code: int(m.Exit.GetCode()), Signal: m.Exit.GetSignal()})
			return nil
		case *talkpb.Frame_Refused:
			return fault.New(fault.Conflict, m.Refused.GetReason(), fault.Text{EN: m.Refused.GetEn(), ZH: m.Refused.GetZh()})
		}
		if err != nil {
			return nil //nolint:nilerr // the client left
		}
	}
}

// listen hands what the client says to the launcher, until one of them is gone.
func listen(ctx context.Context, ws *websocket.Conn, line talk.Stream) {
	for {
		kind, data, err := ws.Read(ctx)
		if err != nil {
			return
		}
		f := &talkpb.Frame{}
		if kind == websocket.MessageBinary {
			f.Message = &talkpb.Frame_Data{Data: &talkpb.Data{Data: data}}
		} else if f = wished(data); f == nil {
			continue
		}
		if line.Send(f) != nil {
			return
		}
	}
}

// wished is a client's word for the launcher; nil: it is none.
func wished(data []byte) *talkpb.Frame {
	var w terminal.Wish
	if json.Unmarshal(data, &w) != nil {
		return nil
	}
	switch w.Type {
	case terminal.Resize:
		return &talkpb.Frame{Message: &talkpb.Frame_Resize{Resize: &talkpb.Resize{Columns: int32(min(max(w.Columns, 0), 4096)), Rows: int32(min(max(w.Rows, 0), 4096))}}}
	case terminal.End:
		return &talkpb.Frame{Message: &talkpb.Frame_End{End: &talkpb.End{}}}
	case terminal.Close:
		return &talkpb.Frame{Message: &talkpb.Frame_Close{Close: &talkpb.Close{}}}
	case terminal.Signal:
		return &talkpb.Frame{Message: &talkpb.Frame_Signal{Signal: &talkpb.Signal{Name: w.Name}}}
	}
	return nil
}

func keepAlive(ctx context.Context, ws *websocket.Conn) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pingEvery):
		}
		pinged, cancel := context.WithTimeout(ctx, sayFor)
		err := ws.Ping(pinged)
		cancel()
		if err != nil {
			ws.CloseNow()
			return
		}
	}
}

// farewell says why there is no more, where anybody can hear it.
func farewell(ws *websocket.Conn, err error, lang string) {
	ctx, cancel := context.WithTimeout(context.Background(), sayFor)
	defer cancel()
	if err != nil {
		e := fault.From(err)
		r := rest.RefusalOf(e, e.Code.HTTP(), lang)
		data, _ := json.Marshal(terminal.News{Type: terminal.Error, Code: r.Code, Reason: r.Reason, Message: r.Message, Retry: r.Retryable})
		_ = ws.Write(ctx, websocket.MessageText, data)
	}
	_ = ws.Close(websocket.StatusNormalClosure, "")
}
