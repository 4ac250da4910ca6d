package link

import (
	"fmt"
	"math"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link/hearing"
	"github.com/fermi-cluster/fermi/internal/link/linkpb"
	"github.com/fermi-cluster/fermi/internal/link/message"
)

// The bounds of the wire.
const (
	maxMessage = 1 << 20   // bytes of one gRPC message
	maxLogData = 256 << 10 // bytes of one LogData
	logWindow  = 1 << 20   // log bytes on their way, beyond what the hub said it received
	maxOutPath = 800       // bytes; with the prefix a key stays below 1,024
	maxGrace   = 24 * time.Hour
	chunkBytes = 128 << 10
)

// checkHello holds the first message against the authenticated name.
func checkHello(h *linkpb.Hello, name engine.Name, p Parts) error {
	switch {
	case h == nil:
		return message.Refuse("the first message must be hello")
	case h.GetReplica() != string(name):
		return message.Refuse("hello is for another replica than the token")
	case h.GetTaskId() != p.TaskID || int(h.GetAttempt()) != p.Attempt:
		return message.Refuse("hello does not fit the replica's name")
	case h.GetEpoch() < 0 || h.GetPid() < 0 || h.GetLogStart() < 0 || h.GetSession() < 0:
		return message.Refuse("hello has a negative number")
	case len(h.GetBootId()) > 64:
		return message.Refuse("hello has an overlong boot id")
	}
	if _, ok := stateRank[engine.State(h.GetState())]; !ok {
		return message.Refuse("hello has an unknown state")
	}
	return nil
}

// stateRank orders the states: a replica never goes back.
var stateRank = map[engine.State]int{
	engine.StateCreated: 1, engine.StateRunning: 2, engine.StateExited: 3, engine.StateDone: 4,
}

func checkExited(e *linkpb.Exited) error {
	switch {
	case e.GetCode() < -1 || e.GetCode() > 255:
		return message.Refuse("exit code out of range")
	case !message.ExitReasons[e.GetReason()]:
		return message.Refuse("unknown exit reason")
	case len(e.GetSignal()) > 32 || len(e.GetMessage()) > message.MaxText:
		return message.Refuse("exit text too long")
	case e.GetCpuNanos() < 0 || e.GetPeakBytes() < 0:
		return message.Refuse("exit has a negative amount")
	}
	return nil
}

// checkLog wants whole lines, bounded, at a sane offset; nothing at all only as the last word.
func checkLog(d *linkpb.LogData) error {
	data := d.GetData()
	switch {
	case d.GetOffset() < 0 || d.GetOffset() > math.MaxInt64-maxLogData:
		return message.Refuse("log offset out of range")
	case len(data) > maxLogData:
		return message.Refuse("log data over %d bytes", maxLogData)
	case len(data) == 0 && !d.GetLast():
		return message.Refuse("empty log data")
	case len(data) > 0 && data[len(data)-1] != '\n':
		return message.Refuse("log data is not whole lines")
	}
	return nil
}

func checkUsage(u *linkpb.Usage) error {
	if u.GetCpuNanos() < 0 || u.GetRssBytes() < 0 || u.GetPeakBytes() < 0 || u.GetProcesses() < 0 {
		return message.Refuse("usage has a negative amount")
	}
	return nil
}

func checkDone(d *linkpb.Done) error {
	if d.GetLogBytes() < 0 || d.GetOutputFiles() < 0 || d.GetOutputBytes() < 0 {
		return message.Refuse("done has a negative amount")
	}
	return nil
}

// checkFromLauncher is every check of a message after the hello.
func checkFromLauncher(m *linkpb.FromLauncher) error {
	switch v := m.GetMessage().(type) {
	case *linkpb.FromLauncher_Hello:
		return message.Refuse("hello comes once")
	case *linkpb.FromLauncher_Started:
		if v.Started.GetPid() < 0 {
			return message.Refuse("started has a negative pid")
		}
	case *linkpb.FromLauncher_Exited:
		return checkExited(v.Exited)
	case *linkpb.FromLauncher_Log:
		return checkLog(v.Log)
	case *linkpb.FromLauncher_Usage:
		return checkUsage(v.Usage)
	case *linkpb.FromLauncher_Done:
		return checkDone(v.Done)
	case *linkpb.FromLauncher_Ranks:
		return message.CheckRanks(v.Ranks)
	case *linkpb.FromLauncher_Probed:
		return message.CheckProbed(v.Probed)
	case *linkpb.FromLauncher_Beat:
	default:
		return message.Refuse("unknown message")
	}
	return nil
}

// checkToLauncher is the launcher's check of what a server says.
func checkToLauncher(m *linkpb.ToLauncher) error {
	switch v := m.GetMessage().(type) {
	case *linkpb.ToLauncher_Welcome:
		return fmt.Errorf("welcome comes once")
	case *linkpb.ToLauncher_Go:
		return message.CheckGo(v.Go)
	case *linkpb.ToLauncher_Watermark:
		return message.CheckWatermark(v.Watermark)
	case *linkpb.ToLauncher_Probe:
		return message.CheckProbe(v.Probe)
	case *linkpb.ToLauncher_Call:
		if id := v.Call.GetId(); id == "" || len(id) > 64 {
			return fmt.Errorf("call by nobody")
		}
	case *linkpb.ToLauncher_LogAck:
		if a := v.LogAck; a.GetDurable() < 0 || a.GetReceived() < 0 {
			return fmt.Errorf("acknowledgement below zero")
		}
	case *linkpb.ToLauncher_Stop:
		if g := v.Stop.GetGraceNanos(); g < 0 || g > int64(maxGrace) {
			return fmt.Errorf("stop with an absurd grace")
		}
	case *linkpb.ToLauncher_Beat:
		if next := v.Beat.GetNextNanos(); v.Beat.GetEpoch() < 0 || next < 0 || next > int64(hearing.BeatMost) {
			return fmt.Errorf("beat with an epoch below zero")
		}
	default:
		return fmt.Errorf("unknown message")
	}
	return nil
}

// CheckOutputPath says whether a file of the outputs may have this path: relative, clean, printable,
// and nothing in it that could lead out of the replica's own folder.
func CheckOutputPath(p string) error {
	bad := func(en, zh string) error {
		return fault.New(fault.Invalid, "BadOutputPath", fault.T("Output path %q "+en, "输出路径 %q "+zh, p))
	}
	switch {
	case p == "" || len(p) > maxOutPath:
		return bad("is empty or too long; use at most 800 bytes.", "为空或过长；最多 800 字节。")
	case !utf8.ValidString(p):
		return bad("is not valid UTF-8.", "不是合法的 UTF-8。")
	case path.IsAbs(p) || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../"):
		return bad("is not a clean relative path.", "不是规范的相对路径。")
	case strings.ContainsRune(p, '\\'):
		return bad("contains a backslash.", "包含反斜杠。")
	}
	for _, r := range p {
		if !unicode.IsPrint(r) {
			return bad("contains a character that can't be printed.", "包含不可打印的字符。")
		}
	}
	return nil
}

func checkHeader(h *linkpb.OutputHeader, limit int64) error {
	if h == nil {
		return message.Refuse("the first part must be the header")
	}
	if err := CheckOutputPath(h.GetPath()); err != nil {
		return message.Refuse("%s", err)
	}
	if h.GetSize() < 0 {
		return message.Refuse("output size below zero")
	}
	if h.GetSize() > limit {
		return status.Errorf(codes.ResourceExhausted, "output of %d bytes is over the limit of %d", h.GetSize(), limit)
	}
	return nil
}
