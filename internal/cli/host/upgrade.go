package host

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const mostAtOnce = 32

func upgrade(a *call.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use: "upgrade [NODE...]", Short: speech.Both("Give agents the servers' own program, one machine after the other; what runs there goes on", "将代理升级为与服务器相同的程序，逐台进行；运行中的任务不受影响"), Args: usage.Need(0, -1, "[NODE...]"),
		Example: "  fermi node upgrade box3\n  fermi node upgrade --all\n  fermi node list -o wide      # which version each agent is",
	}
	all := cmd.Flags().Bool("all", false, speech.Both("all machines that joined", "所有已加入的机器"))
	atOnce := cmd.Flags().Int("parallel", 1, speech.Both("how many machines at once", "同时升级的机器数"))
	patience := cmd.Flags().Duration("timeout", 10*time.Minute, speech.Both("how long one machine may take", "每台机器的时限"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		switch {
		case *all == (len(args) > 0):
			return usage.Wrong(cmd, fault.T("Name nodes, or say --all.", "请给出节点名，或使用 --all。"))
		case *atOnce < 1 || *atOnce > mostAtOnce:
			return usage.Wrong(cmd, fault.T("--parallel is between 1 and %d.", "--parallel 应在 1 与 %d 之间。", mostAtOnce))
		}
		if *all {
			var err error
			if args, err = machines(ctx, s); err != nil {
				return err
			}
		}
		f := &fleet{s: s, patience: *patience}
		f.run(ctx, args, *atOnce)
		return f.result(ctx)
	})
	return cmd
}

// machines are the nodes that joined, by name.
func machines(ctx context.Context, s *call.Session) (out []string, err error) {
	err = s.Client.Walk(ctx, api.KindNode, client.ListOptions{Limit: 500}, func(o api.Object) bool {
		if o.(*api.Node).Spec.Agent != nil {
			out = append(out, o.GetMeta().Name)
		}
		return true
	})
	slices.Sort(out)
	return out, err
}

// fleet is machines while they are upgraded. A new program that does not come up on one comes up nowhere: nothing more is begun then.
type fleet struct {
	s        *call.Session
	patience time.Duration

	mu    sync.Mutex
	done  int
	left  []string // not begun
	away  []string // not reached
	first error    // of an upgrade that failed
}

func (f *fleet) run(ctx context.Context, names []string, atOnce int) {
	f.left = names
	var wg sync.WaitGroup
	for range min(atOnce, len(names)) {
		wg.Go(func() {
			for name, ok := f.next(ctx); ok; name, ok = f.next(ctx) {
				f.end(name, f.one(ctx, name))
			}
		})
	}
	wg.Wait()
}

func (f *fleet) next(ctx context.Context) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.left) == 0 || f.first != nil || ctx.Err() != nil {
		return "", false
	}
	name := f.left[0]
	f.left = f.left[1:]
	return name, true
}

// end takes what became of one.
func (f *fleet) end(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.done++
	case fault.ReasonOf(err) == "AgentAway":
		f.away = append(f.away, name)
		show.Line(f.s.Out, "node/"+name+" "+f.s.T("is not reached", "无法连接"))
	case f.first == nil:
		f.first = err
	default:
		show.Line(f.s.Err, fault.From(err).Message.In(f.s.Lang))
	}
}

// one upgrades a machine, and waits until it is up again.
func (f *fleet) one(ctx context.Context, name string) error {
	asked, err := client.UpgradeNode(ctx, f.s.Client, name)
	if err != nil {
		return err
	}
	if asked.State == joined.UpgradeDone {
		f.say(name, f.s.T("is of version %s already", "已是版本 %s", asked.Version))
		return nil
	}
	f.say(name, f.s.T("fetches version %s", "正在获取版本 %s", asked.Version))
	late := f.s.Clock.After(f.patience)
	for {
		o, err := f.s.Client.Get(ctx, api.KindNode, "", name)
		if err != nil && fault.CodeOf(err) != fault.Unavailable {
			return err
		}
		if node, ok := o.(*api.Node); ok && err == nil && node.Status.Agent != nil && node.Status.Agent.Upgrade != nil && node.Status.Agent.Upgrade.ID == asked.ID {
			switch u := node.Status.Agent.Upgrade; {
			case u.State == joined.UpgradeFailed:
				return fault.New(fault.Conflict, "UpgradeFailed", fault.T("%s goes on with version %s: %s", "%s 继续使用版本 %s：%s", name, node.Status.Agent.Version, u.Message.In(f.s.Lang)))
			case u.State == joined.UpgradeDone && node.Status.Ready:
				f.say(name, f.s.T("runs version %s", "已运行版本 %s", u.Version))
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-late:
			return fault.New(fault.Unavailable, "UpgradeLate", fault.T("%s has not said within %s that it is up with the new program.", "%s 未在 %s 内报告新程序已就绪。", name, f.patience)).
				WithHint(fault.T("See `fermi describe node %s`; nothing is lost if you ask again.", "请查看 `fermi describe node %s`；可放心再次执行。", name))
		case <-f.s.Clock.After(500 * time.Millisecond):
		}
	}
}

func (f *fleet) say(name, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	show.Line(f.s.Out, "node/"+name+" "+what)
}

// result is how it went for all.
func (f *fleet) result(ctx context.Context) error {
	if f.first != nil {
		if len(f.left) > 0 {
			fmt.Fprintln(f.s.Out, f.s.T("%d [machine was|machines were] left as they are.", "其余 %d 台机器未做更改。", len(f.left)))
		}
		return f.first
	}
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	if n := len(f.away); n > 0 {
		return fault.New(fault.Unavailable, "NotAllUpgraded", fault.T("%d [machine was|machines were] not reached.", "有 %d 台机器无法连接。", n)).
			WithHint(fault.T("Ask again when they are back: fermi node upgrade --all", "待其恢复后再次执行：fermi node upgrade --all"))
	}
	return nil
}
