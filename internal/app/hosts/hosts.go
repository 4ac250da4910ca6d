// Package hosts is a server's part in machines that join: who may, which nodes they are, and what their agents are told.
//
// Place: layer 6, a part of the assembly. Promise: a token lets one machine in, in the one write that makes its node; a name, and a machine, is one
// node's at a time; a node that is deleted has no agent any more. Enemies: a token that works twice, a cloned disk, a number that is given again.
package hosts

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
	"github.com/fermi-cluster/fermi/internal/link/forward"
	"github.com/fermi-cluster/fermi/internal/server/door"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Config makes Hosts.
type Config struct {
	Store  *store.Store
	Events history.Events
	Keys   func() [][]byte // of the link
	// Targets is the file that names where launchers of other machines reach servers.
	Targets string
	Shared  record.SharedTier
	Version string
	Log     *slog.Logger
	// Measured is told how far zones are apart, as agents found; nil: they measure nothing.
	Measured func(from, to string, m api.MeasuredLatency)
	// Ask puts a wish to join to the leader; asked is false where we lead, or there is nobody else.
	Ask func(ctx context.Context, w agency.Wish) (j agency.Joined, asked bool, err error)
}

// Hosts is what a server does for machines that join. Safe for concurrent use.
type Hosts struct {
	cfg   Config
	Desk  *agency.Desk
	epoch atomic.Pointer[store.Epoch]
	// engine is that of now; nil while we don't lead.
	engine atomic.Pointer[agentengine.Engine]
}

// New makes it; it starts nothing.
func New(cfg Config) *Hosts {
	h := &Hosts{cfg: cfg}
	h.Desk = agency.NewDesk(agency.DeskConfig{Keys: cfg.Keys, Targets: h.targets, Version: cfg.Version, Program: handOut, Log: cfg.Log, Known: h.known, Join: func(ctx context.Context, w agency.Wish) (agency.Joined, error) {
		if j, asked, err := cfg.Ask(ctx, w); asked {
			return j, err
		}
		return h.Join(ctx, w)
	}})
	return h
}

// Lead makes the engine of a leadership; give it back at its end.
func (h *Hosts) Lead(epoch store.Epoch, mint func(engine.Name) string) (e *agentengine.Engine, give func()) {
	e = agentengine.New(agentengine.Config{
		Takes: func(version string) error { return agency.Compatible(h.cfg.Version, version) },
		Epoch: epoch.Revision, Mint: mint, Joined: h.joined, Expected: h.expected, Settings: h.settings, Homeless: h.homeless, Upgraded: h.upgraded, Measured: h.cfg.Measured, Log: h.cfg.Log, Clock: clock.Real,
	})
	h.epoch.Store(&epoch)
	h.engine.Store(e)
	back := h.Desk.Take(e)
	return e, func() {
		back()
		h.engine.CompareAndSwap(e, nil)
		h.epoch.CompareAndSwap(&epoch, nil)
	}
}

// Erase has machines delete what they have of a task's checkpoints.
func (h *Hosts) Erase(taskID string) {
	if e := h.engine.Load(); e != nil {
		e.Erase(taskID)
	}
}

// Place is where agents reach this server, and the key that it shows.
func (h *Hosts) Place() (addresses []string, pin string, err error) {
	list, err := endpoint.Read(h.cfg.Targets)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	for _, t := range list {
		if rest, ok := strings.CutPrefix(t, "tls://"); ok {
			address, its, _ := strings.Cut(rest, "#")
			addresses, pin = append(addresses, address), its
		}
	}
	if len(addresses) == 0 {
		return nil, "", fault.New(fault.Conflict, "NoLinkAddress", fault.T("This server has no address that other machines reach it at.", "该服务器没有可供其他机器访问的地址。")).
			WithHint(fault.T("Start it with --link-listen, such as --link-listen 10.0.0.1:7072.", "请用 --link-listen 启动，例如 --link-listen 10.0.0.1:7072。"))
	}
	target, err := endpoint.Target("host:1", h.cfg.Keys()[0]) // a file of a moment ago may name the key before
	if err == nil {
		_, pin, _ = strings.Cut(target, "#")
	}
	return addresses, pin, err
}

// each visits all nodes.
func (h *Hosts) each(ctx context.Context, visit func(*api.Node)) error {
	snap, err := h.cfg.Store.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return err
	}
	snap.Ascend("", func(o api.Object) bool {
		visit(o.(*api.Node))
		return true
	})
	return nil
}

// joined are the nodes of machines that joined.
func (h *Hosts) joined(ctx context.Context) (out []api.Node, err error) {
	err = h.each(ctx, func(n *api.Node) {
		if n.Spec.Agent != nil {
			out = append(out, *n)
		}
	})
	return out, err
}

// known is nil while a node has this joining. Another server may have made it a moment ago.
func (h *Hosts) known(ctx context.Context, who agency.Identity) error {
	key := api.Key{Kind: api.KindNode, Name: who.Node}
	is := func(o api.Object, err error) (bool, error) {
		if fault.Is(err, fault.NotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		a := o.(*api.Node).Spec.Agent
		return a != nil && a.ID == who.ID, nil
	}
	ok, err := is(h.cfg.Store.Get(ctx, key, 0))
	if err != nil || ok {
		return err
	}
	now, err := h.cfg.Store.Now(ctx)
	if err != nil {
		return err
	}
	if ok, err = is(h.cfg.Store.Get(ctx, key, now)); err != nil || ok {
		return err
	}
	return agency.ErrRemoved
}

// expected are replicas that may be on machines that joined: those that stand there, and those that were given up there.
func (h *Hosts) expected(ctx context.Context) ([]engine.Observation, error) {
	names := map[uint32]string{}
	var out []engine.Observation
	err := h.each(ctx, func(n *api.Node) {
		if n.Spec.Agent == nil {
			return
		}
		names[n.Spec.Number] = n.Meta.Name
		for _, held := range n.Status.Holds {
			out = append(out, engine.Observation{Name: engine.Name(held.Replica), TaskID: held.Owner, State: engine.StateCreated, Node: n.Meta.Name})
		}
	})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	snap, err := h.cfg.Store.List(ctx, api.KindPlacement, "", 0)
	if err != nil {
		return nil, err
	}
	var places []*api.Placement
	snap.Ascend("", func(o api.Object) bool {
		places = append(places, o.(*api.Placement))
		return true
	})
	for _, p := range places {
		o, err := store.WorkByID(ctx, h.cfg.Store, p.Spec.TaskID, 0)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		view := o.Workload()
		if view.Phase == api.PhasePending || view.Phase == "" {
			continue
		}
		for _, r := range p.Spec.Roles {
			for i, slot := range r.Slots {
				if node, ok := names[slot.Node]; ok {
					out = append(out, engine.Observation{
						Name: engine.NameOf(p.Spec.TaskID, r.Role, r.Index(i), view.AttemptOf(r.Role)), TaskID: p.Spec.TaskID, State: engine.StateCreated, Node: node,
					})
				}
			}
		}
	}
	return out, nil
}

// homeless are those of these homes that nobody needs: their owner is in the store no more, or has another home.
func (h *Hosts) homeless(ctx context.Context, owners []string) (out []string, err error) {
	now, err := h.cfg.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range owners {
		o, err := store.WorkByID(ctx, h.cfg.Store, devenv.OwnerOfHome(id), now)
		e, is := o.(*devenv.DevEnvironment)
		switch {
		case fault.Is(err, fault.NotFound), is && !(devenv.Moves{Of: e}).Keeps(id):
			out = append(out, id)
		case err != nil:
			return nil, err
		}
	}
	return out, nil
}

// Road is how gateways of this server reach replicas on machines that joined.
func (h *Hosts) Road() *forward.Dialer {
	return &forward.Dialer{Show: endpoint.Shown(h.cfg.Keys), NodeOf: func(ctx context.Context, cert *x509.Certificate) (string, error) {
		who, err := agency.Check(h.cfg.Keys(), cert, clock.Real.Now())
		if err == nil {
			err = h.known(ctx, who)
		}
		return who.Node, err
	}}
}

// fileMark lies in a shared folder, so that agents can tell whether they see the same one.
const fileMark = ".fermi-shared"

// targets are where servers are reached, with the key of now.
func (h *Hosts) targets() []string {
	list, _ := endpoint.Read(h.cfg.Targets)
	if target, err := endpoint.Target("0.0.0.0:1", h.cfg.Keys()[0]); err == nil {
		list = slices.Insert(list, 0, target) // it names no place, only the key
	}
	return list
}

// settings are what agents are told beside orders.
func (h *Hosts) settings() agentengine.Settings {
	s := agentengine.Settings{Targets: h.targets(), Sealing: h.sealing(context.Background())}
	shared := h.cfg.Shared
	if shared.Place == "" {
		return s
	}
	if shared.Credentials != "" {
		s.Keys, _ = os.ReadFile(shared.Credentials)
		shared.Credentials = ""
	}
	if !strings.HasPrefix(shared.Place, "s3://") {
		s.Mark = mark(shared.Place)
	}
	s.Shared, _ = json.Marshal(shared)
	return s
}

// mark reads the mark of a shared folder, or makes it.
func mark(folder string) string {
	path := filepath.Join(folder, fileMark)
	if raw, err := os.ReadFile(path); err == nil {
		return strings.TrimSpace(string(raw))
	}
	if os.MkdirAll(folder, 0o755) != nil {
		return ""
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return ""
	}
	text := id.Default.Random(20)
	_, err = f.WriteString(text + "\n")
	if errors.Join(err, f.Close()) != nil {
		return ""
	}
	return text
}

var errNotLeading = fault.New(fault.Unavailable, "NotLeading", fault.T("This server does not lead now.", "该服务器当前不是主节点。"))

// Join uses a token up and makes the node of a machine. Only the leader can.
func (h *Hosts) Join(ctx context.Context, w agency.Wish) (j agency.Joined, err error) {
	for range 5 {
		epoch := h.epoch.Load()
		if epoch == nil {
			return j, errNotLeading
		}
		if j, err = h.join(ctx, *epoch, w); fault.ReasonOf(err) != "Stale" && fault.ReasonOf(err) != "NameTaken" {
			return j, err
		}
	}
	return j, err
}

func (h *Hosts) join(ctx context.Context, epoch store.Epoch, w agency.Wish) (agency.Joined, error) {
	var none agency.Joined
	if err := checkWish(w); err != nil {
		return none, err
	}
	now, err := h.cfg.Store.Now(ctx)
	if err != nil {
		return none, err
	}
	token, err := h.token(ctx, w.Secret, now)
	if err != nil {
		return none, err
	}
	if w.Zone != "" && token.Meta.Labels[joined.LabelZone] != "" && w.Zone != token.Meta.Labels[joined.LabelZone] {
		return none, fault.New(fault.Forbidden, "OtherZone", fault.T("The token is for zone %s, not %s.", "该令牌用于可用区 %s，而非 %s。", token.Meta.Labels[joined.LabelZone], w.Zone)).
			WithHint(fault.T("Leave --zone out, or make a token for that zone.", "请去掉 --zone，或为该可用区生成令牌。"))
	}
	zone := token.Meta.Labels[joined.LabelZone]
	if _, err := h.cfg.Store.Get(ctx, api.Key{Kind: api.KindZone, Name: zone}, now); err != nil {
		return none, fault.New(fault.NotFound, "NoSuchZone", fault.T("There is no zone %s any more.", "可用区 %s 已不存在。", zone)).Because(err)
	}
	node, old, err := h.nodeFor(ctx, w, zone, now)
	if err != nil {
		return none, err
	}
	op := store.Create(node)
	if old {
		op = store.Update(node)
	}
	if _, err := h.cfg.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Delete(api.KeyOf(token), token.Meta.Revision), op}, Fence: epoch}); err != nil {
		return none, err
	}
	if err := h.cfg.Events.AddEvents(ctx, history.Event{
		Time: node.Meta.UpdatedAt, Kind: api.KindNode, Name: node.Meta.Name, ID: node.Meta.ID, Type: "Normal", Reason: "NodeJoined", Actor: token.Spec.User,
		Message: fault.T("A machine at %s joined with a token of %s.", "位于 %s 的机器使用 %s 的令牌加入。", w.Address, token.Spec.User), Dedup: node.Meta.ID + "/joined-" + node.Spec.Agent.ID,
	}); err != nil {
		h.cfg.Log.Warn("an event was not written", "error", err)
	}
	return agency.Joined{Node: node.Meta.Name, ID: node.Spec.Agent.ID, Zone: zone}, nil
}

// checkWish refuses what is no name or label.
func checkWish(w agency.Wish) error {
	var fields []fault.Field
	if !api.IsName(w.Name) {
		fields = append(fields, fault.Field{Path: "name", Message: fault.T("%q is no name of a node: use up to 63 of a-z, 0-9 and -.", "%q 不能用作节点名称：请使用不超过 63 个 a-z、0-9 或 -。", clip(w.Name))})
	}
	if len(w.Labels) > 32 {
		fields = append(fields, fault.Field{Path: "label", Message: fault.T("At most 32 labels.", "最多 32 个标签。")})
	}
	for k, v := range w.Labels {
		if k == "" || len(k) > 63 || len(v) > 63 || strings.ContainsFunc(k+v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			fields = append(fields, fault.Field{Path: "label." + clip(k), Message: fault.T("A label is key=value, each of up to 63 characters.", "标签格式为 key=value，各不超过 63 个字符。")})
		}
	}
	if w.Address != "" && net.ParseIP(w.Address) == nil {
		fields = append(fields, fault.Field{Path: "advertise", Message: fault.T("%q is no IP address.", "%q 不是 IP 地址。", clip(w.Address))})
	}
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "BadJoin", fault.T("The machine can't join as it says.", "机器的加入信息有误。")).WithFields(fields...)
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// token is the join token of a secret.
func (h *Hosts) token(ctx context.Context, secret string, now int64) (*api.Token, error) {
	bad := fault.New(fault.Unauthenticated, "BadJoinToken", fault.T("The join token is not valid: it is unknown, or was used already.", "加入令牌无效：不存在或已使用。")).
		WithHint(fault.T("Each machine needs a token of its own: fermi node add.", "每台机器需要各自的令牌：fermi node add。"))
	parts := strings.SplitN(secret, "_", 3)
	if len(secret) > 256 || len(parts) != 3 || !api.IsName(parts[1]) {
		return nil, bad
	}
	o, err := h.cfg.Store.Get(ctx, api.Key{Kind: api.KindToken, Name: parts[1]}, now)
	if fault.Is(err, fault.NotFound) {
		return nil, bad
	}
	if err != nil {
		return nil, err
	}
	t := o.(*api.Token)
	if t.Spec.Use != joined.Use || subtle.ConstantTimeCompare([]byte(door.HashSecret(secret)), []byte(t.Spec.Hash)) != 1 {
		return nil, bad
	}
	if at := t.Spec.ExpiresAt; at != nil && !at.After(clock.Real.Now()) {
		return nil, fault.New(fault.Unauthenticated, "JoinTokenExpired", fault.T("The join token expired at %s.", "加入令牌已于 %s 过期。", at.UTC().Format(time.RFC3339))).
			WithHint(fault.T("Make another: fermi node add.", "请重新生成：fermi node add。"))
	}
	return t, nil
}

// nodeFor is the node of a machine: a new one, or its own that it lost the certificate of.
func (h *Hosts) nodeFor(ctx context.Context, w agency.Wish, zone string, now int64) (node *api.Node, old bool, err error) {
	snap, err := h.cfg.Store.List(ctx, api.KindNode, "", now)
	if err != nil {
		return nil, false, err
	}
	taken := map[uint32]bool{}
	var same, twin *api.Node
	snap.Ascend("", func(o api.Object) bool {
		n := o.(*api.Node)
		taken[n.Spec.Number] = true
		switch a := n.Spec.Agent; {
		case n.Meta.Name == w.Name:
			same = n
		case a != nil && w.MachineID != "" && a.MachineID == w.MachineID:
			twin = n
		}
		return true
	})
	joining := &joined.Agent{ID: id.Default.Random(16), MachineID: w.MachineID, Labels: w.Labels}
	at := clock.Real.Now().UTC()
	switch {
	case twin != nil:
		return nil, false, fault.New(fault.Conflict, "MachineIDTaken", fault.T(
			"Node %s has the same machine id: this disk is a copy of that machine's, or this is that machine.", "节点 %s 的机器标识相同：本机磁盘是其副本，或本机就是该机器。", twin.Meta.Name)).
			WithHint(fault.T("A copy: make a new id with `rm /etc/machine-id; systemd-machine-id-setup`. The same machine: `fermi node remove %[1]s` first, or join with --name %[1]s.",
				"若为副本：用 `rm /etc/machine-id; systemd-machine-id-setup` 生成新标识；若为同一机器：先执行 `fermi node remove %[1]s`，或用 --name %[1]s 加入。", twin.Meta.Name))
	case same != nil && (same.Spec.Agent == nil || same.Spec.Agent.MachineID != w.MachineID || w.MachineID == "" || h.isAttached(w.Name)):
		return nil, false, fault.New(fault.Conflict, "NodeNameTaken", fault.T("There is a node %s already.", "节点 %s 已存在。", w.Name)).
			WithHint(fault.T("Choose another name with --name, or remove that node: fermi node remove %s.", "请用 --name 换一个名称，或移除该节点：fermi node remove %s。", w.Name))
	case same != nil:
		next := store.Clone(same)
		next.Spec.Agent, next.Spec.Zone, next.Meta.UpdatedAt = joining, zone, at
		return next, true, nil
	}
	number, err := freshNumber(taken)
	if err != nil {
		return nil, false, err
	}
	return &api.Node{
		Meta: api.Meta{ID: id.Default.New(api.MustInfo(api.KindNode).IDPrefix), Name: w.Name, DisplayName: w.Name, Labels: w.Labels, CreatedAt: at, UpdatedAt: at},
		Spec: api.NodeSpec{Number: number, Zone: zone, Rack: w.Labels["rack"], Leaf: w.Labels["leaf"], Spec: joined.Spec{Agent: joining, Spot: joined.IsSpot(w.Labels)}},
		Status: api.NodeStatus{Reason: "Joining", Message: fault.T("It has joined; its agent has not said yet what the machine has.", "已加入；其代理尚未上报机器配置。"),
			Status: joined.Status{Agent: &joined.AgentStatus{Version: w.Version, Address: w.Address}}},
	}, false, nil
}

func (h *Hosts) isAttached(node string) bool {
	e := h.engine.Load()
	return e != nil && slices.Contains(e.Attached(), node)
}

// freshNumber is one that no node has, and that none is likely to have had: numbers of nodes that were removed are not known any more.
func freshNumber(taken map[uint32]bool) (uint32, error) {
	for {
		var raw [4]byte
		if _, err := rand.Read(raw[:]); err != nil {
			return 0, err
		}
		if n := 1<<16 + binary.LittleEndian.Uint32(raw[:])%(1<<24); !taken[n] {
			return n, nil
		}
	}
}
