package env

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/pkg/sftp"
	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/terminal"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/files"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// copies is how often a copy whose connection broke is taken up again without getting further.
const copies = 5

func copyFiles() *cobra.Command {
	return &cobra.Command{
		Use: "cp SOURCE… DESTINATION", Short: cli.Both("Copy files and folders to and from environments", "在本机与环境之间复制文件和文件夹"), Args: cobra.MinimumNArgs(2), GroupID: cli.GroupWork,
		Long: cli.Both(`Copy files and folders between this machine and an environment. One side is ENVIRONMENT:PATH, or task/NAME:PATH for the first replica of a running task; a path that does not begin with /
begins in the home. A copy that broke goes on where it was when the command is given again; what is there already, with the same size and time, is not sent. Links are left out.`,
			`在本机与环境之间复制文件和文件夹。一侧写作 环境:路径，或 task/任务:路径（运行中任务的首个副本）；不以 / 开头的路径从主目录开始。
中断的复制在重新执行命令后从断点继续；大小与时间相同的文件不再传输。链接会被略过。`),
		Example: "  fermi cp data.csv lab:\n  fermi cp -- src lab:/tmp/src\n  fermi cp lab:results ./results",
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := dial(cmd)
			if err != nil {
				return err
			}
			p, err := planOf(args[:len(args)-1], args[len(args)-1])
			if err != nil {
				return err
			}
			return w.copyAll(cmd, p)
		},
	}
}

// place is one side of a copy.
type place struct {
	kind api.Kind // "": this machine
	name string
	path string
}

// copyKinds are the kinds that a name may be of.
var copyKinds = map[string]api.Kind{"env": devenv.Kind, "environment": devenv.Kind, "task": api.KindTrainingTask}

// placeOf reads NAME:PATH; a single letter before a colon is a drive elsewhere, and no name.
func placeOf(arg string) place {
	name, rest, ok := strings.Cut(arg, ":")
	if !ok || strings.HasPrefix(arg, ".") || strings.HasPrefix(arg, "/") {
		return place{path: arg}
	}
	kind := devenv.Kind
	if word, one, two := strings.Cut(name, "/"); two {
		if kind = copyKinds[word]; kind == "" {
			return place{path: arg}
		}
		name = one
	}
	if !api.IsName(name) {
		return place{path: arg}
	}
	return place{kind, name, rest}
}

// plan is what is copied where; there is the side that is a replica.
type plan struct {
	from  []string
	to    string
	there place
	up    bool
}

func planOf(sources []string, to string) (p plan, err error) {
	dst := placeOf(to)
	p.to, p.up = dst.path, dst.kind != ""
	if p.up {
		p.there = dst
	}
	for i, arg := range sources {
		src := placeOf(arg)
		switch {
		case (src.kind != "") == p.up, i > 0 && !p.up && (src.kind != p.there.kind || src.name != p.there.name):
			return p, fault.New(fault.Invalid, "Usage", fault.T("One side is this machine, the other one environment: ENVIRONMENT:PATH.", "一侧为本机，另一侧为同一个环境：环境:路径。"))
		case !p.up:
			p.there = src
		}
		p.from = append(p.from, src.path)
	}
	return p, nil
}

// copyAll copies, and takes a copy up again whose connection broke.
func (w *where) copyAll(cmd *cobra.Command, p plan) error {
	m := &meter{out: cmd.ErrOrStderr(), shown: isTerminal(cmd.ErrOrStderr()), began: time.Now()}
	ctx := cmd.Context()
	var last int64 = -1
	for tries := 0; ; tries++ {
		err := w.copyOnce(ctx, p, m)
		if err == nil || ctx.Err() != nil || !isBroken(err) || tries >= copies {
			m.end(w, err)
			return err
		}
		if m.carried() > last {
			tries = 0
		}
		last = m.carried()
		w.Say("The connection broke; going on where it was.", "连接中断，从断点继续。")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(time.Duration(tries+1)*lookEvery*4, 2*time.Second)):
		}
	}
}

// isBroken says that another connection may bring it further.
func isBroken(err error) bool {
	return fault.CodeOf(err).Retry() || errors.Is(err, sftp.ErrSSHFxConnectionLost) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.EOF)
}

func (w *where) copyOnce(ctx context.Context, p plan, m *meter) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := w.sftp(ctx, p.there)
	if err != nil {
		return err
	}
	defer c.Close()
	far := files.Remote{Client: c}
	for _, from := range p.from {
		if p.up {
			err = upload(ctx, far, from, p.to, len(p.from) > 1, m)
		} else {
			err = download(ctx, far, from, p.to, len(p.from) > 1, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func upload(ctx context.Context, far files.Remote, from, to string, several bool, m *meter) error {
	full, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(full); err == nil { // what somebody names they mean, also by a link
		full = real
	}
	root, err := os.OpenRoot(filepath.Dir(full))
	if err != nil {
		return err
	}
	defer root.Close()
	if to == "" {
		to = "."
	}
	c := &files.Copier{From: files.Local{Root: root}, To: far, Tell: m.tell}
	err = c.Copy(ctx, filepath.Base(full), files.Within(far, to, filepath.Base(from), several || strings.HasSuffix(to, "/")))
	m.add(c.Report())
	return err
}

func download(ctx context.Context, far files.Remote, from, to string, several bool, m *meter) error {
	if from == "" {
		from = "."
	}
	if real, err := far.RealPath(from); err == nil {
		from = real
	}
	name := path.Base(from)
	at := to
	if info, err := os.Stat(to); err == nil && info.IsDir() || several || strings.HasSuffix(to, "/") {
		if !files.IsName(name) {
			return fault.New(fault.Invalid, "BadName", fault.T("%s has no name of its own; say what it shall be called.", "%s 没有名称；请指定目标名称。", from))
		}
		at = filepath.Join(to, name)
	}
	at, err := filepath.Abs(at)
	if err != nil {
		return err
	}
	if several || strings.HasSuffix(to, "/") {
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(filepath.Dir(at))
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "NoSuchFile", fault.T("There is no folder %s.", "没有文件夹 %s。", filepath.Dir(at)))
	}
	if err != nil {
		return err
	}
	defer root.Close()
	c := &files.Copier{From: far, To: files.Local{Root: root}, Tell: m.tell}
	err = c.Copy(ctx, from, filepath.Base(at))
	m.add(c.Report())
	return err
}

// sftp opens a session of files beside a replica's processes.
func (w *where) sftp(ctx context.Context, p place) (*sftp.Client, error) {
	o := client.TerminalOptions{Kind: p.kind, Project: w.Project, Name: p.name, Wish: terminal.Wish{Session: rand.Text(), Command: []string{"fermi", "sftp-server"}}}
	line, err := client.OpenTerminal(ctx, w.Client, o)
	if err != nil {
		return nil, err
	}
	if _, _, _, err := line.Receive(ctx); err != nil { // that it is open, or why not
		line.Hang()
		return nil, err
	}
	in, heard := io.Pipe()
	said := &spoken{ctx: ctx, line: line}
	go func() {
		for {
			data, isErrors, news, err := line.Receive(ctx)
			switch {
			case err != nil:
				heard.CloseWithError(err)
				return
			case news != nil && news.Type == terminal.Exit:
				heard.CloseWithError(io.ErrUnexpectedEOF)
				return
			case len(data) > 0 && !isErrors:
				if _, err := heard.Write(data); err != nil {
					return
				}
			}
		}
	}()
	c, err := sftp.NewClientPipe(in, said, files.Options()...)
	if err != nil {
		_ = said.Close()
		return nil, err
	}
	return c, nil
}

// spoken is what is said to a session of files.
type spoken struct {
	ctx  context.Context //nolint:containedctx // of the connection
	line *client.Terminal
}

func (s *spoken) Write(b []byte) (int, error) {
	if err := s.line.Write(s.ctx, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close ends the session.
func (s *spoken) Close() error {
	_ = s.line.Say(s.ctx, terminal.Wish{Type: terminal.Close})
	s.line.Hang()
	return nil
}

// meter shows how far it is.
type meter struct {
	out   io.Writer
	shown bool // on a terminal
	began time.Time
	drawn time.Time
	total files.Report
	now   int64 // carried by the copy of this moment
}

func (m *meter) carried() int64 { return m.total.Bytes + m.now }

// tellEvery is between two lines on a terminal.
const tellEvery = 200 * time.Millisecond

func (m *meter) tell(r files.Report) {
	m.now = r.Bytes
	if !m.shown || time.Since(m.drawn) < tellEvery {
		return
	}
	m.drawn = time.Now()
	percent := int64(100)
	if r.Size > 0 {
		percent = 100 * r.Done / r.Size
	}
	name := []rune(r.Name)
	if len(name) > 40 {
		name = append([]rune("…"), name[len(name)-39:]...)
	}
	fmt.Fprintf(m.out, "\r\x1b[K%s %3d %%  %s  %s/s", printable(string(name)), percent, size(float64(m.carried())), m.pace())
}

func (m *meter) pace() string {
	return size(float64(m.carried()) / max(time.Since(m.began).Seconds(), 0.001))
}

// printable is a name without what would move the cursor.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, name)
}

// size is a number of bytes for people.
func size(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; n >= 1024 && i < len(units)-1; i++ {
		n /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, units[i])
}

// add takes in what one copy did.
func (m *meter) add(r files.Report) {
	m.total.Files, m.total.Same, m.total.Links = m.total.Files+r.Files, m.total.Same+r.Same, m.total.Links+r.Links
	m.total.Bytes, m.now = m.total.Bytes+r.Bytes, 0
}

// end says what was done.
func (m *meter) end(w *where, err error) {
	if m.shown && !m.drawn.IsZero() {
		fmt.Fprint(m.out, "\r\x1b[K")
	}
	if err != nil {
		return
	}
	w.Say("%d [file|files] copied, %s in %.1f s (%s/s); %d there already.", "已复制 %d 个文件，%s，用时 %.1f 秒（%s/秒）；%d 个已存在。",
		m.total.Files, size(float64(m.total.Bytes)), time.Since(m.began).Seconds(), m.pace(), m.total.Same)
	if m.total.Links > 0 {
		w.Say("%d [link was|links were] left out.", "略过 %d 个链接。", m.total.Links)
	}
}
