package port

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/talk"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/server/limit"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	rooms "github.com/fermi-cluster/fermi/internal/server/terminal"
)

// Ports serves them. Safe for concurrent use.
type Ports struct {
	Rooms  *rooms.Terminals
	Door   *door.Door
	Box    *seal.Box // nil: browsers can't be let in
	Domain string    // whose names are content hosts, beside localhost's
	Limits limit.Limits
	Counts *limit.Counters
	Clock  clock.Clock

	spent   spent
	secrets sync.Map // of notebooks, by replica
	proxy   *proxy
}

// Init makes it ready; before anything else.
func (p *Ports) Init() { p.proxy = newProxy(p) }

// Close ends what is kept open for the next request.
func (p *Ports) Close() { p.proxy.transport.CloseIdleConnections() }

// address is a port and where it is reached. It is exported for the document.
type Address struct {
	Port int    `json:"port"`
	Name string `json:"name,omitempty"`
	URL  string `json:"url,omitempty" doc:"For browsers, which are let in by open; absent where this server has no host for it (content.domain)."`
	Path string `json:"path" doc:"For programs that send a token: Authorization: Bearer."`
}

// Entry lets a browser in.
type Entry struct {
	URL       string    `json:"url" doc:"Works once; its fragment, which no server sees, holds the code."`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Routes are those of environments.
func (p *Ports) Routes(reg *rest.Schemas, rules *access.Rules) []*rest.Route {
	row := devenv.Row
	if _, known := api.InfoOf(row.Kind); !known {
		return nil // this program has no environments
	}
	base := rest.Prefix + "/" + row.Plural + "/{name}/ports"
	rules.AsGet("listPorts", row.Kind)
	rules.AsWrite("openPort", row.Kind)
	rules.AsWrite("connectPort", row.Kind)
	rules.AsWrite("sharePort", row.Kind)
	rules.AsWrite("unsharePort", row.Kind)
	query := []rest.Param{rest.ParamProject}
	items := rest.Object([]string{"items"}, map[string]*huma.Schema{"items": rest.ListOf(rest.SchemaOf[Address](reg))})
	return []*rest.Route{
		{Method: http.MethodGet, Path: base, ID: "listPorts", Tag: row.Plural, Kind: row.Kind, Summary: "The ports of an environment that have an address.", Query: query, Data: items, Handle: p.list},
		{
			Method: http.MethodPost, Path: base + "/{port}/open", ID: "openPort", Tag: row.Plural, Kind: row.Kind, Verb: "openPort", Query: query,
			Summary: "An address that lets a browser in to a port, once.", Data: rest.SchemaOf[Entry](reg), Handle: p.open,
		},
		{
			Method: http.MethodPost, Path: base + "/{port}/share", ID: "sharePort", Tag: row.Plural, Kind: row.Kind, Verb: "sharePort", Query: append(query, paramFor),
			Summary: "A link by which anybody who has it reaches a port in a browser, until it ends or is taken back.", Data: rest.SchemaOf[Shared](reg), Handle: (&links{p}).share,
		},
		{
			Method: http.MethodDelete, Path: rest.Prefix + "/" + row.Plural + "/{name}/links/{link}", ID: "unsharePort", Tag: row.Plural, Kind: row.Kind, Verb: "unsharePort", Query: query,
			Summary: "Take a link to a port back; who came by it is cut off within seconds.", Data: reg.Kind(row), Handle: (&links{p}).unshare,
		},
		{
			Method: http.MethodGet, Path: base + "/{port}/connect", ID: "connectPort", Tag: row.Plural, Kind: row.Kind, Verb: "connect", Look: true, Long: true, Query: query,
			Summary: "A connection to any port there, as a WebSocket: binary messages are bytes, the text end says that no more come.", Media: "application/octet-stream", Handle: p.connect,
		},
	}
}

// find is the environment that a call is about.
func (p *Ports) find(ctx context.Context, c *rest.Call) (objects.Found, *devenv.DevEnvironment, error) {
	name := c.R.PathValue("name")
	c.Note.Names(devenv.Kind, name)
	f, err := p.Rooms.Finder.Resolve(ctx, c, devenv.Row, name)
	if err != nil {
		return f, nil, err
	}
	c.Note.About(f.Object)
	return f, f.Object.(*devenv.DevEnvironment), nil
}

func (p *Ports) list(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, e, err := p.find(ctx, c)
	if err != nil {
		return nil, err
	}
	items := []Address{}
	for _, one := range e.AllPorts() {
		items = append(items, Address{one.Port, one.Name, p.urlOf(c.R, e, one.Port), pathOf(e, one.Port)})
	}
	return &rest.Reply{Data: map[string]any{"items": items}, Revision: e.Meta.Revision}, nil
}

// number is the port in a path.
func number(c *rest.Call) (int, error) {
	n, err := strconv.Atoi(c.R.PathValue("port"))
	if err != nil || n < 1 || n > 65535 {
		return 0, refuse.Invalid("port", fault.T("A port is a number from 1 to 65535.", "端口必须是 1 到 65535 之间的数字。"))
	}
	return n, nil
}

// declared refuses a port that has no address.
func declared(e *devenv.DevEnvironment, port int) error {
	if slices.ContainsFunc(e.AllPorts(), func(d devenv.Port) bool { return d.Port == port }) {
		return nil
	}
	return fault.New(fault.NotFound, "PortNotDeclared", fault.T("The environment %s declares no port %d.", "环境 %s 未声明端口 %d。", e.Meta.Name, port)).WithHint(
		fault.T("Add it to spec.ports, or bring it to your machine: fermi env port %s %d.", "可加入 spec.ports，或转发到本机：fermi env port %s %d。", e.Meta.Name, port))
}

func (p *Ports) open(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	_, e, err := p.find(ctx, c)
	if err != nil {
		return nil, err
	}
	n, err := number(c)
	if err == nil {
		err = p.Rooms.May(ctx, c.Who, e)
	}
	if err == nil {
		err = declared(e, n)
	}
	if err == nil && c.Who.Replica != "" { // a browser would be let in for longer than it lasts
		err = fault.New(fault.Forbidden, "ReplicaMayNot", fault.T("Processes of an environment or task let no browser in; open it from your own machine.", "环境或任务中的进程不能为浏览器授权；请在您自己的机器上打开。"))
	}
	if err != nil {
		return nil, err
	}
	at := p.urlOf(c.R, e, n)
	if at == "" || p.Box == nil {
		return nil, fault.New(fault.Conflict, "NoContentHost", fault.T("This server has no host for pages of environments at the name you use.", "以您所用的地址访问时，该服务器没有可用于环境页面的主机名。")).WithHint(
			fault.T("Its operator sets --content-domain; meanwhile: fermi env port %s %d, and open http://127.0.0.1:%d.", "请管理员配置 --content-domain；在此之前可用 fermi env port %s %d，再打开 http://127.0.0.1:%d。", e.Meta.Name, n, n))
	}
	ends := p.Clock.Now().UTC().Add(codeFor)
	code := p.Box.Seal(pass{Token: c.Who.Token.Meta.Name, TokenID: c.Who.Token.Meta.ID, Env: e.Meta.ID, Port: n, Ends: ends}.text(), contextCode)
	return &rest.Reply{Data: Entry{at + enterPath[1:] + "#" + code, ends}}, nil
}

// line leads to a port of an environment as it runs now.
func (p *Ports) line(ctx context.Context, e *devenv.DevEnvironment) (engine.Name, func(context.Context) (talk.Stream, func(), error), error) {
	if p.Rooms.Lines == nil {
		return "", nil, talk.ErrNotAttached
	}
	work, err := rooms.Running(objects.Found{Object: e})
	if err != nil {
		return "", nil, err
	}
	replica, err := p.Rooms.Lines.Line(ctx, work, 0)
	return replica, func(ctx context.Context) (talk.Stream, func(), error) { return p.Rooms.Lines.Talk(ctx, replica) }, err
}

// connect carries one connection over a WebSocket.
func (p *Ports) connect(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
	f, e, err := p.find(ctx, c)
	if err != nil {
		return nil, err
	}
	n, err := number(c)
	if err == nil {
		err = p.Rooms.May(ctx, c.Who, e)
	}
	if err == nil {
		_, err = rooms.Running(f)
	}
	if err == nil && c.R.Header.Get("Upgrade") == "" {
		err = fault.New(fault.Invalid, "WebSocketOnly", fault.T("A connection is a WebSocket; use fermi env port.", "连接使用 WebSocket；请使用 fermi env port。"))
	}
	if err != nil {
		return nil, err
	}
	held, end, err := p.Rooms.Streams.Hold(ctx, c, func(ctx context.Context, who *access.Caller) error { return p.still(ctx, who, e) })
	if err != nil {
		return nil, err
	}
	defer end()
	replica, open, err := p.line(held, e)
	if err != nil {
		return nil, err
	}
	conn, err := talk.Dial(held, open, "localhost", n)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	p.Rooms.Auditor.RememberRead(c, string(replica)+":"+strconv.Itoa(n))
	ws, err := websocket.Accept(c.W, c.R, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	c.Status = http.StatusSwitchingProtocols // or the refusal that Accept has written
	if err != nil {
		return nil, nil //nolint:nilerr // it was answered
	}
	defer ws.CloseNow()
	ws.SetReadLimit(terminal.MaxMessage)
	defer context.AfterFunc(held, func() { _, _ = conn.Close(), ws.CloseNow() })()
	talk.Joint(&socket{ws: ws, ctx: held}, conn)
	return nil, nil
}

// still says whether somebody may go on.
func (p *Ports) still(ctx context.Context, who *access.Caller, e *devenv.DevEnvironment) error {
	now, err := p.Rooms.Finder.Truth.Find(ctx, api.KeyOf(e), 0)
	if err != nil {
		return err
	}
	if now.GetMeta().ID != e.Meta.ID {
		return refuse.Missing(devenv.Row, e.Meta.Name)
	}
	return p.Rooms.May(ctx, who, now)
}

// still says whether who asked for a page may have more of it.
func (v visitor) still(ctx context.Context, p *Ports, e *devenv.DevEnvironment, port int) error {
	if v.Caller == nil {
		now, err := p.Rooms.Finder.Truth.Find(ctx, api.KeyOf(e), 0)
		if err != nil {
			return err
		}
		is := now.(*devenv.DevEnvironment)
		if is.Meta.ID != e.Meta.ID {
			return errLink
		}
		return v.may(ctx, p, is, port)
	}
	who, err := p.Door.Recheck(ctx, v.Caller)
	if err != nil {
		return err
	}
	return p.still(ctx, who, e)
}

// socket is a WebSocket as a connection with two halves.
type socket struct {
	ws   *websocket.Conn
	ctx  context.Context //nolint:containedctx // of the connection
	rest []byte
	over error
}

const endOfInput = "end"

func (s *socket) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.over != nil {
			return 0, s.over
		}
		kind, data, err := s.ws.Read(s.ctx)
		switch {
		case err != nil:
			s.over = err
		case kind == websocket.MessageText:
			s.over = errEnd
		default:
			s.rest = data
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *socket) Write(b []byte) (int, error) {
	return len(b), s.ws.Write(s.ctx, websocket.MessageBinary, b)
}

func (s *socket) CloseWrite() error {
	return s.ws.Write(s.ctx, websocket.MessageText, []byte(endOfInput))
}

func (s *socket) Close() error { return s.ws.Close(websocket.StatusNormalClosure, "") }

// text is a pass before it is sealed.
func (p pass) text() string {
	data, _ := json.Marshal(p)
	return string(data)
}
