package health

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// Memory is how long a fault counts against a node, and how long closings of one device are added up.
	Memory = 24 * time.Hour
	// MostClosings is how often a device may be closed within Memory and still return by itself.
	MostClosings = 3
	// TestAgain is how long a device that failed its test is left alone, unless somebody asks.
	TestAgain = 10 * time.Minute
	// sameFault is how long a fault of the same kind is no news, while it closes nothing.
	sameFault = time.Hour
	maxFaults = 16
)

// Seen is all that is known of one device at a moment.
type Seen struct {
	Node    string
	Device  api.Device
	Health  *card.DeviceHealth  // as it was written; nil: never at fault
	Reading *card.DeviceReading // the newest; nil: nobody reads it, or none came yet
	Base    card.DeviceCounts   // its counters when it was first read
	Lines   []card.KernelLine   // of the kernel's log, about it, in order
	Order   *card.DeviceOrder
	Busy    bool // something stands on it
	// Result is of the newest test; nil: none was made.
	Result *card.DeviceTest
	Boot   string // of its node's kernel
}

// Verdict is what becomes of it.
type Verdict struct {
	Health *card.DeviceHealth // nil: still never at fault
	Test   bool               // it waits for a test
	Wake   time.Duration      // when to look again though nothing changes; 0: never
	Events []Event
}

// Event is what people should know.
type Event struct {
	Warning bool
	Reason  string
	Text    fault.Text
}

// The reasons of events.
const (
	ReasonClosed   = "DeviceClosed"
	ReasonWatched  = "DeviceFault"
	ReasonReturned = "DeviceReturned"
	ReasonKeptOut  = "DeviceKeptOut"
)

// turn is one judgement under way.
type turn struct {
	Seen
	now      time.Time
	h        card.DeviceHealth
	findings []finding
	asked    bool // a test is wanted now
	out      Verdict
}

// Decide judges one device.
func Decide(s Seen, now time.Time) Verdict {
	t := &turn{Seen: s, now: now, h: card.DeviceHealth{Device: s.Device.Index, State: card.DeviceOpen, Since: now}}
	if s.Health != nil {
		t.h = *s.Health
		t.h.Faults, t.h.Conditions = slices.Clone(t.h.Faults), slices.Clone(t.h.Conditions)
	}
	t.findings = findings(s.Reading, t.h.Counted, s.Base, now)
	t.obey()
	if t.h.Log.Boot != "" && s.Boot != "" && s.Boot != t.h.Log.Boot { // its machine was started again
		t.h.Log = card.LogMark{Boot: s.Boot}
		t.mend(now)
	}
	t.collect()
	t.advance()
	t.describe()
	if s.Health == nil && t.h.Total == 0 && len(t.h.Conditions) == 0 && t.h.Ordered == nil {
		return Verdict{}
	}
	t.out.Health = &t.h
	return t.out
}

// obey takes up an order that is new.
func (t *turn) obey() {
	o := t.Order
	if o == nil || t.h.Ordered != nil && !o.At.After(*t.h.Ordered) {
		return
	}
	at := o.At
	switch o.Order {
	case card.OrderFault:
		t.h.Ordered = &at
		t.strike(card.DeviceFault{Kind: o.Kind, Action: KindAction(o.Kind), Source: card.FaultOfDrill, At: at, Message: Words(o.Kind, 0, "")})
	case card.OrderTest:
		t.h.Ordered = &at
		t.mend(at)
	case card.OrderReturn:
		t.h.Ordered = &at
		t.reopen(fault.T("An operator returned it.", "已由运维人员恢复。"))
	}
}

// mend notes that what closed the device may be over, and lets it be tested.
func (t *turn) mend(at time.Time) {
	if t.h.ClosedAt == nil {
		return
	}
	t.h.MendedAt, t.asked = &at, true
}

// drilled says that a drill without healing is in force.
func (t *turn) drilled() bool {
	o := t.Order
	return o != nil && o.Order == card.OrderFault && !o.Heal && t.h.Ordered != nil && t.h.Ordered.Equal(o.At)
}

// collect takes up what the kernel's log and the reading have that is new.
func (t *turn) collect() {
	for _, l := range t.Lines {
		if l.Boot == t.h.Log.Boot && l.Sequence <= t.h.Log.Sequence {
			continue
		}
		action := XidAction(l.Xid, l.Text)
		kind := "xid-" + itoa(l.Xid)
		if action == card.ActionNone || t.knows(kind, l.At, action) {
			continue
		}
		t.h.Log = card.LogMark{Boot: l.Boot, Sequence: l.Sequence}
		t.strike(card.DeviceFault{Kind: kind, Action: action, Source: card.FaultOfKernel, At: l.At, Message: Words(kind, 0, "")})
	}
	for _, f := range t.findings {
		if f.Action.Closes() && !t.knows(f.Kind, t.now, f.Action) {
			t.strike(card.DeviceFault{Kind: f.Kind, Action: f.Action, Source: card.FaultOfDriver, At: t.now, Message: f.Message})
		}
	}
}

// knows says that a fault of this kind is no news: it was taken up since the device was closed, or, where it closes nothing,
// lately.
func (t *turn) knows(kind string, at time.Time, action card.DeviceAction) bool {
	return slices.ContainsFunc(t.h.Faults, func(f card.DeviceFault) bool {
		if f.Kind != kind {
			return false
		}
		if action.Closes() {
			return t.h.ClosedAt != nil && !f.At.Before(*t.h.ClosedAt)
		}
		return at.Sub(f.At) < sameFault
	})
}

// strike takes a fault down, and closes the device where it asks for that.
func (t *turn) strike(f card.DeviceFault) {
	t.h.Total++
	closes := f.Action.Closes()
	if closes && t.h.ClosedAt == nil {
		f.Closed = true
		at := t.now
		t.h.ClosedAt = &at
	}
	again := t.h.State == card.DeviceOut && f.Source == card.FaultOfDrill // a drill begins the way anew
	if closes && (t.h.State == card.DeviceOpen || t.h.State == card.DeviceTesting || again) {
		t.enter(card.DeviceClosed)
		t.h.Reason = f.Kind
		if t.h.Log.Boot == "" {
			t.h.Log.Boot = t.Boot
		}
		t.tell(true, ReasonClosed, say("Device %d: %s. It takes no new work; what runs on it saves and leaves.", "加速卡 %d：%s。已停止接收新任务，其上的任务将保存并迁出。", t.h.Device, f.Message))
	} else if !closes {
		t.tell(true, ReasonWatched, say("Device %d: %s.", "加速卡 %d：%s。", t.h.Device, f.Message))
	}
	if closes && f.At.Before(*t.h.ClosedAt) { // the log told late: it belongs to this closing
		f.At = *t.h.ClosedAt
	}
	t.h.Faults = append(t.h.Faults, f)
	if n := len(t.h.Faults) - maxFaults; n > 0 {
		t.h.Faults = slices.Clone(t.h.Faults[n:])
	}
}

func (t *turn) enter(s card.DeviceState) { t.h.State, t.h.Since = s, t.now }

func (t *turn) tell(warning bool, reason string, text fault.Text) {
	t.out.Events = append(t.out.Events, Event{warning, reason, text})
}

// advance takes the next step of the way back.
func (t *turn) advance() {
	if t.h.State == card.DeviceOut && t.mayTest() {
		t.enter(card.DeviceTesting)
	}
	if t.h.State == card.DeviceClosed && !t.Busy {
		t.enter(card.DeviceTesting)
	}
	if t.h.State != card.DeviceTesting {
		return
	}
	if t.Busy { // it was placed on in the very moment it was closed
		t.enter(card.DeviceClosed)
		return
	}
	if t.Result == nil || t.Result.At.Before(t.h.Since) {
		t.out.Test = true
		return
	}
	result := *t.Result
	t.judge(&result)
	t.h.Test = &result
	if result.Passed {
		t.reopen(fault.T("Its test was passed.", "检测通过。"))
		return
	}
	t.enter(card.DeviceOut)
	t.tell(true, ReasonKeptOut, say("Device %d is kept out: %s", "加速卡 %d 暂不启用：%s", t.h.Device, result.Message))
}

// judge says whether a test that was made lets the device return.
func (t *turn) judge(r *card.DeviceTest) {
	fail := func(why fault.Text) { r.Passed, r.Message = false, why }
	if t.drilled() {
		fail(fault.T("The drill says that it stays at fault.", "演练设定该故障不恢复。"))
		return
	}
	for _, f := range t.findings {
		if f.level && f.Action.Closes() {
			fail(sentence(f.Message))
			return
		}
	}
	switch {
	case !r.Passed:
	case !t.mended():
		fail(fault.T("After this fault it must be reset before it is used.", "该故障后须先复位才能使用。"))
	case t.closings() > MostClosings && !t.operatorAsked():
		fail(fault.T("It was closed %d times within a day.", "一天内已被停用 %d 次。", t.closings()))
	}
}

// needs is the most that faults of this closing ask for. Those of drills are over when the drill is, and others when the
// device was mended since.
func (t *turn) needs() card.DeviceAction {
	worst := card.ActionTest
	for _, f := range t.h.Faults {
		if t.h.ClosedAt == nil || f.At.Before(*t.h.ClosedAt) || f.Source == card.FaultOfDrill || t.h.MendedAt != nil && f.At.Before(*t.h.MendedAt) {
			continue
		}
		if f.Action == card.ActionRestart || f.Action == card.ActionReset && worst != card.ActionRestart {
			worst = f.Action
		}
	}
	return worst
}

// mended says that no reset is needed any more: nothing asks for one, or the driver says that there is nothing to recover.
func (t *turn) mended() bool {
	if t.Device.Virtual || t.needs() == card.ActionTest {
		return true
	}
	return t.Reading != nil && t.Reading.Repair.KnowsRecovery && t.Reading.Repair.Recovery == "" && !t.Reading.Lost
}

// operatorAsked says that an operator wanted a test since it was closed.
func (t *turn) operatorAsked() bool {
	o := t.Order
	return o != nil && o.Order == card.OrderTest && t.h.ClosedAt != nil && o.At.After(*t.h.ClosedAt)
}

// closings is how often it was closed within a day.
func (t *turn) closings() (n int) {
	for _, f := range t.h.Faults {
		if f.Closed && t.now.Sub(f.At) < Memory {
			n++
		}
	}
	return n
}

// mayTest says that one that is kept out may be tested again; else when to ask again.
func (t *turn) mayTest() bool {
	if t.asked {
		return true
	}
	if t.drilled() || t.closings() > MostClosings || !t.Device.Virtual && t.Reading == nil || !t.mended() {
		return false
	}
	for _, f := range t.findings {
		if f.level && f.Action.Closes() {
			return false
		}
	}
	if t.h.Test == nil {
		return true
	}
	if wait := t.h.Test.At.Add(TestAgain).Sub(t.now); wait > 0 {
		t.out.Wake = wait
		return false
	}
	return true
}

// reopen lets work in again. What was counted so far is dealt with.
func (t *turn) reopen(why fault.Text) {
	if t.h.State != card.DeviceOpen {
		t.enter(card.DeviceOpen)
		t.tell(false, ReasonReturned, say("Device %d takes work again. %s", "加速卡 %d 恢复接收任务。%s", t.h.Device, why))
	}
	t.h.Reason, t.h.ClosedAt, t.h.MendedAt, t.h.Message = "", nil, nil, fault.Text{}
	t.h.Counted = CountsOf(t.Reading, t.h.Counted)
	t.h.Log = card.LogMark{Boot: t.Boot}
	for _, l := range t.Lines {
		t.h.Log = card.LogMark{Boot: l.Boot, Sequence: max(l.Sequence, t.h.Log.Sequence)}
	}
	t.findings = findings(t.Reading, t.h.Counted, t.Base, t.now)
}

// describe writes down what is wrong now and why it is closed. A value that changed alone is no news.
func (t *turn) describe() {
	var list []card.DeviceCondition
	for _, f := range t.findings {
		list = append(list, f.DeviceCondition)
	}
	if t.h.Closed() {
		for _, f := range t.h.Faults {
			if f.Action.Closes() && t.h.ClosedAt != nil && !f.At.Before(*t.h.ClosedAt) && !slices.ContainsFunc(list, func(c card.DeviceCondition) bool { return c.Kind == f.Kind }) {
				list = append(list, card.DeviceCondition{Kind: f.Kind, Action: f.Action, Since: f.At, Message: f.Message})
			}
		}
	}
	for i, c := range list {
		for _, old := range t.h.Conditions {
			if old.Kind == c.Kind && old.Action == c.Action {
				list[i] = old
			}
		}
	}
	t.h.Conditions = list
	what := fault.Text{}
	for _, f := range t.h.Faults {
		if f.Kind == t.h.Reason {
			what = f.Message
		}
	}
	switch t.h.State {
	case card.DeviceClosed:
		t.h.Message = say("%s; what runs on it saves and leaves, then it is tested.", "%s；其上的任务将保存并迁出，随后检测。", capital(what))
	case card.DeviceTesting:
		t.h.Message = say("%s; nothing runs on it any more, and it is tested.", "%s；已无任务，正在检测。", capital(what))
	case card.DeviceOut:
		failed := fault.Text{}
		if t.h.Test != nil {
			failed = t.h.Test.Message
		}
		t.h.Message = say("%s; it is kept out. %s %s", "%s；暂不启用。%s%s", capital(what), failed, advice(t.needs(), t.Node, t.h.Device))
	}
}

// Failures are the faults that count against a node now, and when the oldest of them no longer will; 0: none does.
func Failures(devices []card.DeviceHealth, now time.Time) (n int, next time.Duration) {
	for _, h := range devices {
		for _, f := range h.Faults {
			left := f.At.Add(Memory).Sub(now)
			if !f.Closed || left <= 0 {
				continue
			}
			n++
			if next == 0 || left < next {
				next = left
			}
		}
	}
	return n, next
}
