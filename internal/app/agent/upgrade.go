package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/app/agent/program"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// An upgrade never puts a program in its place that did not come up there. The new one is fetched beside the agent's own and rehearsed: this agent ends its
// parts, the new one attaches to a server as it would, and ends. Only then it takes the place, and this process becomes it. Whatever dies
// in between, what the machine starts next is the old program or one that was tried. Launchers know nothing of it.

const (
	fileUpgrade  = "upgrade.json"
	flagRehearse = "rehearse"
	fetchIn      = 20 * time.Minute
	rehearseIn   = 20 * time.Second
)

// Successor says that the agent is to be another program, or that it did not get it.
type Successor struct {
	next string // where it is; "": the upgrade is over
	up   joined.Upgrade
}

func (s *Successor) Error() string { return "upgrade to " + s.up.Version + ": " + string(s.up.State) }

// lastUpgrade is that of this machine, as it was written down; nil: there was none.
func lastUpgrade(cfg Config) *joined.Upgrade {
	raw, err := os.ReadFile(filepath.Join(cfg.Data, fileUpgrade))
	if err != nil {
		return nil
	}
	u := &joined.Upgrade{}
	if json.Unmarshal(raw, u) != nil || u.ID == "" {
		return nil
	}
	return u
}

// ended is how an upgrade ended that was cut off: it succeeded if we are what it was to bring.
func ended(u *joined.Upgrade) *joined.Upgrade {
	if u == nil || u.Over() {
		return u
	}
	if own, err := program.Running(); err == nil && own.Digest == u.Digest {
		u.State = joined.UpgradeDone
	} else {
		u.State, u.Message = joined.UpgradeFailed, fault.T("The agent ended while it was upgraded; it goes on with the program that it had.", "代理在升级过程中退出，已恢复使用原有程序。")
	}
	return u
}

// keepUpgrade writes down how far it is.
func keepUpgrade(cfg Config, u joined.Upgrade) error {
	raw, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return write(filepath.Join(cfg.Data, fileUpgrade), raw)
}

// upgrades are those of this agent. Safe for concurrent use.
type upgrades struct {
	cfg    Config
	wanted chan agentengine.Program

	mu   sync.Mutex
	last *joined.Upgrade // nil: none was asked for
}

func newUpgrades(cfg Config) *upgrades {
	return &upgrades{cfg: cfg, wanted: make(chan agentengine.Program, 1), last: lastUpgrade(cfg)}
}

// now is how the last one is.
func (a *upgrades) now() *joined.Upgrade {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// begin begins an upgrade, or says why not.
func (a *upgrades) begin(p agentengine.Program) error {
	if p.Platform != program.Platform {
		return fault.New(fault.Conflict, "OtherPlatform", fault.T("The machine is %s, and the servers' program is for %s.", "该机器为 %s，而服务器的程序用于 %s。", program.Platform, p.Platform)).
			WithHint(fault.T("Install the program for this machine by hand, and restart the agent.", "请手动安装适用于该机器的程序，并重启代理。"))
	}
	own, err := program.Running()
	if err != nil {
		return err
	}
	if own.Digest == p.Digest {
		return fault.New(fault.Conflict, agentengine.ReasonUpToDate, fault.T("The agent runs this program already.", "代理已在运行该程序。"))
	}
	if err := program.Replaceable(a.cfg.Exe); err != nil {
		return err
	}
	u := joined.Upgrade{ID: p.ID, Version: p.Version, Digest: p.Digest, State: joined.UpgradeFetching, At: clock.Real.Now().UTC()}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil && !a.last.Over() {
		return fault.New(fault.Conflict, "UpgradeRuns", fault.T("An upgrade of this agent is under way.", "该代理正在升级。"))
	}
	a.last = &u
	a.wanted <- p // has room: one at a time, and its end is the agent's
	return nil
}

// why is what people are told of an error.
func why(err error) fault.Text {
	var known *fault.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return fault.T("%v", "%v", err)
}

// run fetches the program that was asked for. It ends the agent, which then is another one or says what was wrong.
func (a *upgrades) run(ctx context.Context) error {
	var p agentengine.Program
	select {
	case <-ctx.Done():
		return nil
	case p = <-a.wanted:
	}
	s := &Successor{up: *a.now()}
	a.cfg.Log.Info("an upgrade was asked for", "version", p.Version, "digest", p.Digest)
	ctx, cancel := context.WithTimeout(ctx, fetchIn)
	defer cancel()
	err := keepUpgrade(a.cfg, s.up)
	if err == nil {
		s.next, err = program.Receive(a.cfg.Exe, p.Size, p.Digest, func(w io.Writer) error { return a.cfg.Member.Fetch(ctx, p.Digest, w) })
	}
	s.up.State = joined.UpgradeTrying
	if err != nil {
		s.up.State, s.up.Message = joined.UpgradeFailed, why(err)
	}
	return s
}

// succeed rehearses the successor and becomes it. It returns where that fails: the agent goes on with the program that it is.
func (s *Successor) succeed(ctx context.Context, cfg Config, out io.Writer) {
	keep := func(u joined.Upgrade) {
		u.At = clock.Real.Now().UTC()
		if err := keepUpgrade(cfg, u); err != nil {
			cfg.Log.Warn("how the upgrade went could not be written down", "error", err)
		}
	}
	keep(s.up)
	if s.up.State == joined.UpgradeTrying {
		cfg.Log.Info("the new program is tried", "program", s.next, "version", s.up.Version)
		err := program.Try(ctx, s.next, append(slices.Clone(os.Args[1:]), fmt.Sprintf("--%s=%s", flagRehearse, cfg.Exe)), rehearseIn, out)
		if err == nil {
			err = program.Put(s.next, cfg.Exe)
		}
		if err == nil {
			s.up.State = joined.UpgradeDone
			keep(s.up)
			cfg.Log.Info("the new program came up; this agent becomes it", "version", s.up.Version)
			err = syscall.Exec(cfg.Exe, os.Args, os.Environ())
		} else {
			_ = os.Remove(s.next)
		}
		s.up.State, s.up.Message = joined.UpgradeFailed, why(err)
		keep(s.up)
	}
	cfg.Log.Error("the upgrade failed; this agent goes on as it is", "version", s.up.Version, "error", s.up.Message.EN)
}
