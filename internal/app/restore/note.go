package restore

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/term"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/seal"
)

// After is what becomes of training tasks that had not ended when the backup was taken.
type After string

const (
	// GoOn: what waited waits on, and what ran goes on from its last checkpoint that is still there.
	GoOn After = "go-on"
	// StopRunning: what ran is stopped, for it may still run elsewhere; what waited waits on.
	StopRunning After = "stop-running"
	// StopAll: all of it is stopped.
	StopAll After = "stop"
)

var afters = []After{GoOn, StopRunning, StopAll}

func parseAfter(text string) (After, error) {
	if a := After(text); slices.Contains(afters, a) {
		return a, nil
	}
	return "", fault.New(fault.Invalid, "BadFlag", fault.T("--unfinished is %s, %s or %s, not %q.", "--unfinished 可取 %s、%s 或 %s，而非 %q。", GoOn, StopRunning, StopAll, text))
}

// askAfter asks who sits at the terminal; GoOn where nobody does.
func askAfter(in io.Reader, out io.Writer, lang string) (a After, asked bool) {
	if f, ok := in.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return GoOn, false
	}
	fmt.Fprint(out, fault.T(`The backup may hold tasks that ran or waited when it was taken. What becomes of them at the first start?
  1  go-on: those that waited wait on, those that ran go on from their last checkpoint
  2  stop-running: those that ran are stopped (they may still run elsewhere), those that waited wait on
  3  stop: all of them are stopped
[1/2/3]: `, `备份中可能有当时正在运行或排队的任务。首次启动时如何处理？
  1  go-on：排队的继续排队，运行中的从最近的检查点继续
  2  stop-running：运行中的停止（可能仍在别处运行），排队的继续排队
  3  stop：全部停止
[1/2/3]：`).In(lang))
	line, _ := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n')
	switch strings.TrimSpace(line) {
	case "2", string(StopRunning):
		return StopRunning, true
	case "3", string(StopAll):
		return StopAll, true
	}
	return GoOn, true
}

// Note stands in a restored folder.
type Note struct {
	// Work is what the first leader does before it judges anything; "" once that is done.
	Work  After     `json:"work,omitempty"`
	Taken time.Time `json:"taken"`
	// SecretKeys are the fingerprints of the keys that open the secrets in the backup.
	SecretKeys []string `json:"secretKeys,omitempty"`
}

const restoreFile = "restored.json"

// Write puts the note into a folder, whole or not at all.
func (n Note) Write(dir string) error {
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, restoreFile+".new")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := toFile(tmp, func(w io.Writer) error {
		_, err := w.Write(append(raw, '\n'))
		return err
	}); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, restoreFile))
}

// Read reads the note; nil where the folder was not restored.
func Read(dir string) (*Note, error) {
	raw, err := os.ReadFile(filepath.Join(dir, restoreFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var n Note
	if err == nil {
		err = json.Unmarshal(raw, &n)
	}
	if err == nil && n.Work != "" {
		_, err = parseAfter(string(n.Work))
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "RestoreNoteDamaged", fault.T("The file %s can't be read; it says what becomes of work after a restore.", "无法读取文件 %s；其中记录恢复后任务的处理方式。", filepath.Join(dir, restoreFile))).
			WithHint(fault.T("Restore once more, or write {\"work\":\"stop\"} or {\"work\":\"go-on\"} into it.", "请重新恢复，或写入 {\"work\":\"stop\"} 或 {\"work\":\"go-on\"}。")).Because(err)
	}
	return &n, nil
}

// printOf is a fingerprint of a key: it says which one it is and nothing about it.
func printOf(key []byte) string {
	sum := blake3.Sum256(append([]byte("fermi secret.key fingerprint\x00"), key...))
	return hex.EncodeToString(sum[:8])
}

// Prints are the fingerprints of a file of keys.
func Prints(raw []byte) []string {
	var out []string
	for key := range slices.Chunk(raw, seal.KeyBytes) { // the one of now first
		out = append(out, printOf(key))
	}
	return out
}

// PrintsIn are those of the keys in a file.
func PrintsIn(path string) ([]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Prints(raw), nil
}

// OtherKey says that a key is none of those that sealed the secrets of a backup.
func OtherKey(raw []byte, sealedWith []string) bool {
	if len(sealedWith) == 0 {
		return false // nobody wrote it down
	}
	return !slices.ContainsFunc(Prints(raw), func(one string) bool { return slices.Contains(sealedWith, one) })
}

const keyFile = "secret.key"

// readKey reads a key that somebody kept.
func readKey(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err == nil && len(raw)%seal.KeyBytes == 0 && len(raw) > 0 && len(raw) <= 2*seal.KeyBytes {
		return raw, nil
	}
	if err == nil {
		err = fmt.Errorf("%d bytes", len(raw))
	}
	return nil, fault.New(fault.Invalid, "BadKey", fault.T("%s is no secret.key of Fermi; nothing was changed.", "%s 不是 Fermi 的 secret.key，未做任何改动。", path)).Because(err)
}
