package devenv

import (
	"strconv"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// HomeTo is where a home shall be.
type HomeTo struct {
	Node string `json:"node,omitempty" doc:"The node whose disk it shall be on; any of the zone when absent."`
	Zone string `json:"zone,omitempty"`
}

// HomeMove is the wish that a home be elsewhere.
type HomeMove struct {
	Count int `json:"count" doc:"Numbers the moves that were asked for."`
	HomeTo
	WithoutLayer bool `json:"withoutLayer,omitempty" doc:"What was installed over its image stays behind, and is lost."`
}

// HomeMoved is how far the newest move came.
type HomeMoved struct {
	Count   int       `json:"count" doc:"That of the wish by which it was begun."`
	Running bool      `json:"running,omitempty" doc:"The new home is being filled; the old one is still there, and counts if this fails."`
	From    HomePlace `json:"from,omitzero" doc:"Where the home was."`
	// WithoutLayer is that of the wish.
	WithoutLayer bool           `json:"withoutLayer,omitempty" doc:"What was installed over its image stays behind."`
	Begins       mount.AssetRef `json:"begins,omitzero" doc:"The snapshot that the new home is filled with."`
	Left         *HomePlace     `json:"left,omitempty" doc:"A home that nobody needs any more and that is about to be deleted."`
	At           *time.Time     `json:"at,omitempty" doc:"When it was moved, or why not was known."`
	Message      fault.Text     `json:"message,omitzero" doc:"What came of it."`
}

// HomePlace is where a home is.
type HomePlace struct {
	Home string `json:"home" doc:"The name of the folder or volume."`
	Node string `json:"node,omitempty"`
	Zone string `json:"zone,omitempty"`
}

// Moves are what people and the controller do about where an environment's home is. Each place has a home of another name, so that no old one is
// ever taken for a new one, whatever disk they share.
type Moves struct{ Of *DevEnvironment }

const moveMark = "-m"

// HomeName is the name of its home as it is now: its id, with the number of the move that made it.
func (e *DevEnvironment) HomeName() string {
	if e.Status.HomeCount == 0 {
		return e.Meta.ID
	}
	return e.Meta.ID + moveMark + strconv.Itoa(e.Status.HomeCount)
}

// OwnerOfHome is the id of whose home has this name.
func OwnerOfHome(name string) string {
	id, _ := splitHome(name)
	return id
}

// splitHome is the id of whose home has this name, and the number of the move that made it. An id has a '-' of its own, and letters behind it that may
// look like the mark.
func splitHome(name string) (id string, count int) {
	i := strings.LastIndex(name, moveMark)
	if i < 0 || !strings.Contains(name[:i], "-") {
		return name, 0
	}
	count, err := strconv.Atoi(name[i+len(moveMark):])
	if err != nil {
		return name, 0
	}
	return name[:i], count
}

// Homes are all that may be somewhere, the one that counts first.
func (x Moves) Homes() []HomePlace {
	e := x.Of
	list := []HomePlace{x.here()}
	if m := e.Status.Moved; m != nil {
		if m.Running {
			list = append(list, m.From)
		}
		if m.Left != nil {
			list = append(list, *m.Left)
		}
	}
	return list
}

// Keeps says that a home of this name is needed.
func (x Moves) Keeps(name string) bool {
	m := x.Of.Status.Moved
	return name == x.Of.HomeName() || m != nil && m.Running && name == m.From.Home
}

func (x Moves) here() HomePlace {
	e := x.Of
	p := HomePlace{Home: e.HomeName(), Node: e.Status.Home}
	if len(e.Status.Zones) > 0 {
		p.Zone = e.Status.Zones[0]
	} else {
		p.Zone = e.Spec.Zone
	}
	return p
}

// Asked says that a move was asked for that has not been begun or given up.
func (x Moves) Asked() bool {
	w, m := x.Of.Spec.Move, x.Of.Status.Moved
	return w != nil && (m == nil || w.Count > m.Count)
}

// Filling says that its home is on its way to where it is now.
func (x Moves) Filling() bool { m := x.Of.Status.Moved; return m != nil && m.Running }

// Going says that it is being moved.
func (x Moves) Going() bool { return x.Asked() || x.Filling() }

// Begins is the snapshot with which its home begins, where that has not begun; nil: none.
func (e *DevEnvironment) Begins() *mount.AssetRef {
	switch m := e.Status.Moved; {
	case m != nil && m.Running:
		return &m.Begins
	case !e.Status.Filled:
		return e.Spec.From
	}
	return nil
}

// TakesLayer says that what was written over its image is to be saved with its home.
func (x Moves) TakesLayer() bool {
	return x.Asked() && x.Of.Spec.Image != "" && !x.Of.Spec.Move.WithoutLayer
}

// BringsLayer says that what was written over its image is on its way to where its home is now.
func (x Moves) BringsLayer() bool {
	return x.Filling() && x.Of.Spec.Image != "" && !x.Of.Status.Moved.WithoutLayer
}

// May refuses what can't be moved there.
func (x Moves) May(to HomeTo) error {
	e := x.Of
	here := x.here()
	switch {
	case x.Going():
		return fault.New(fault.Conflict, "Moving", fault.T("The environment %s is being moved already.", "环境 %s 已在迁移中。", e.Meta.Name)).
			WithHint(fault.T("fermi env stop %s gives that up.", "fermi env stop %s 可取消迁移。", e.Meta.Name))
	case e.Saves() || (Snapshots{e}).Due():
		return fault.New(fault.Conflict, "Saving", fault.T("A snapshot of the home of %s is being made; move it when that is done.", "正在创建 %s 的主目录快照，请在完成后再迁移。", e.Meta.Name))
	case e.Status.Attempt == 0 || e.Spec.From != nil && !e.Status.Filled:
		return fault.New(fault.Conflict, "NoHome", fault.T("The environment %s has no home yet; say where it runs with spec.zone.", "环境 %s 还没有主目录；请用 spec.zone 指定其运行位置。", e.Meta.Name))
	case e.Status.InUseBy != "":
		return fault.New(fault.Conflict, "InUse", fault.T("The task %s trains inside it and would end.", "任务 %s 正在其中训练，将会结束。", e.Status.InUseBy)).
			WithHint(fault.T("Stop that task first, or wait until it ends.", "请先停止该任务，或等待其结束。"))
	case to.Node != "" && to.Node == here.Node, to.Node == "" && to.Zone == here.Zone && here.Node == "":
		return fault.New(fault.Conflict, "AlreadyThere", fault.T("The home of %s is there already.", "%s 的主目录已在该处。", e.Meta.Name))
	}
	return nil
}

// Ask asks for one that may be. Its home has to hold still first, so one that runs is stopped.
func (x Moves) Ask(to HomeTo, withoutLayer bool) {
	e := x.Of
	count := e.Status.HomeCount
	if m := e.Status.Moved; m != nil {
		count = max(count, m.Count)
	}
	if w := e.Spec.Move; w != nil {
		count = max(count, w.Count)
	}
	e.Spec.Move, e.Spec.Stop = &HomeMove{Count: count + 1, HomeTo: to, WithoutLayer: withoutLayer}, true
	Snapshots{e}.Ask()
}

// Leave gives up one that was asked for; false: there is none, or it has begun, and a stop gives it up.
func (x Moves) Leave() bool {
	e := x.Of
	if !x.Asked() {
		return false
	}
	e.Spec.Move = nil
	if !(Snapshots{e}).Leave() {
		e.Spec.Snapshots = 0
		if s := e.Status.Snapshot; s != nil {
			e.Spec.Snapshots = s.Count
		}
	}
	return true
}

// Due says that its home is saved and the new one can be filled.
func (x Moves) Due() bool {
	e := x.Of
	return x.Asked() && e.Status.Phase.Finished() && e.Meta.DeletedAt == nil && !e.Saves() && !(Snapshots{e}).Due()
}

// Begin changes spec and status so that it starts where it shall be, with what the snapshot holds. status is that of a fresh start.
func (x Moves) Begin(next *DevEnvironment, begins mount.AssetRef) {
	w := *x.Of.Spec.Move
	next.Status.Moved = &HomeMoved{Count: w.Count, Running: true, From: x.here(), Begins: begins, WithoutLayer: w.WithoutLayer}
	next.Status.HomeCount, next.Status.Home, next.Status.Zones = w.Count, w.Node, []string{w.Zone}
	if next.Spec.Zone != "" {
		next.Spec.Zone = w.Zone
	}
	next.Spec.Stop = false
	next.Status.Reason, next.Status.Message = "Moving", fault.T("Its home is saved; waiting for a place at %[1]s, where it is filled.", "主目录已保存；正在等待在 %[1]s 上获得位置并恢复。", x.to(w.HomeTo))
}

func (x Moves) to(w HomeTo) string {
	if w.Node != "" {
		return w.Node
	}
	return w.Zone
}

// Prove says that the new home is whole: what ran there found it. The old one may go.
func (x Moves) Prove(next *Status, now time.Time) {
	m := *next.Moved
	from := m.From
	m.Running, m.Left, m.At = false, &from, &now
	m.Message = fault.T("Its home was moved from %s to %s.", "主目录已从 %s 迁移到 %s。", x.to(HomeTo{from.Node, from.Zone}), x.to(x.Of.Spec.Move.HomeTo))
	next.Moved = &m
}

// Return says that the new home did not come to be: the old one counts, and what there is of the new one may go.
func (x Moves) Return(next *DevEnvironment, now time.Time) {
	m := *next.Status.Moved
	here := x.here()
	m.Running, m.Left, m.At = false, &here, &now
	m.Message = fault.T("Its home was not moved to %[1]s: %[2]s It is where it was, %[4]s, with everything in it: fermi env start %[5]s.", "主目录未能迁移到 %[1]s：%[3]s主目录仍在原处 %[4]s，内容完整：fermi env start %[5]s。",
		x.to(x.Of.Spec.Move.HomeTo), next.Status.Message.EN, next.Status.Message.ZH, x.to(HomeTo{m.From.Node, m.From.Zone}), x.Of.Meta.Name)
	next.Status.Moved = &m
	_, next.Status.HomeCount = splitHome(m.From.Home)
	next.Status.Home, next.Status.Zones = m.From.Node, []string{m.From.Zone}
	if next.Spec.Zone != "" {
		next.Spec.Zone = m.From.Zone
	}
}

// GiveUp ends one for which its home could not be saved.
func (x Moves) GiveUp(next *Status, why fault.Text, now time.Time) {
	m := &HomeMoved{Count: x.Of.Spec.Move.Count, At: &now, Message: fault.T("Its home was not moved: %[1]s", "主目录未迁移：%[2]s", why.EN, why.ZH)}
	if was := next.Moved; was != nil {
		m.Left = was.Left
	}
	next.Moved = m
}
