// Package host has the words of the command line about machines that come and go: `fermi node add`, `remove` and `upgrade`.
//
// Place: layer 5, on call. Promise: what is to be typed on the new machine is shown whole, and a token is shown once; an upgrade that fails stops the others.
// Enemies: a secret in a process list, a machine that is removed while work stands there.
package host

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Commands are `fermi node add, remove, upgrade`.
func Commands(a *call.Shell) []*cobra.Command { return []*cobra.Command{add(a), remove(a), upgrade(a)} }

func add(a *call.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use: "add", Short: speech.Both("Make a one-time token with which a machine joins", "生成一次性令牌，供机器加入集群"), Args: usage.Need(0, 0, ""),
		Example: "  fermi node add --zone beijing-1 --ttl 30m",
	}
	zone := cmd.Flags().String("zone", "", speech.Both("zone that the machine is in; the only one when absent", "机器所在的可用区；只有一个可用区时可省略"))
	ttl := cmd.Flags().Duration("ttl", time.Hour, speech.Both("how long the token may be used", "令牌有效期"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, _ []string) error {
		t, err := client.AddNode(ctx, s.Client, *zone, *ttl)
		if err != nil {
			return err
		}
		if s.Structured() {
			return s.Data(t)
		}
		say := func(en, zh string, args ...any) { fmt.Fprintln(s.Out, fault.T(en, zh, args...).In(s.Lang)) }
		say("On the new machine, as root, with the same version of fermi:", "在新机器上以 root 身份执行（fermi 版本与服务器相同）：")
		fmt.Fprintf(s.Out, "\n  FERMI_JOIN_TOKEN=%s \\\n    fermi agent --join %s\n\n", t.Token, strings.Join(reachable(t.Servers), ","))
		say("The token lets one machine join zone %s, once, until %s.", "该令牌可供一台机器加入可用区 %s，仅限一次，有效期至 %s。", t.Zone, t.ExpiresAt.Local().Format(time.DateTime))
		return nil
	})
	return cmd
}

// reachable writes addresses so that a person can complete those that name no host.
func reachable(servers []string) (out []string) {
	for _, s := range servers {
		host, port, err := net.SplitHostPort(s)
		if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
			s = "SERVER:" + port
		}
		out = append(out, s)
	}
	return out
}

func remove(a *call.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove NODE...", Short: speech.Both("Forget machines that joined; their certificates count no more", "移除已加入的机器，其证书随即失效"), Args: usage.Need(1, -1, "NODE..."),
		Example: "  fermi node drain box3 && fermi node remove box3\n  fermi node remove box3 --force   # the machine is gone",
	}
	force := cmd.Flags().Bool("force", false, speech.Both("the machine is gone: give up what ran there first", "机器已不在：先放弃其上的任务"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		for _, name := range args {
			if *force {
				if _, err := s.Client.NodeVerb(ctx, "lost", name, -1); err != nil {
					return err
				}
			}
			if err := removeWhenEmpty(ctx, s, name, *force); err != nil {
				return err
			}
			fmt.Fprintln(s.Out, "node/"+name+" "+fault.T("removed", "已移除").In(s.Lang))
		}
		return nil
	})
	return cmd
}

// patience is how long what was given up may take to leave.
const patience = time.Minute

// removeWhenEmpty removes a node; with force it waits until what was given up there has left.
func removeWhenEmpty(ctx context.Context, s *call.Session, name string, force bool) error {
	end := s.Clock.Now().Add(patience)
	for {
		_, err := s.Client.NodeVerb(ctx, "remove", name, -1)
		if err == nil || !force || fault.ReasonOf(err) != "NodeInUse" || s.Clock.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-s.Clock.After(500 * time.Millisecond):
		}
	}
}
