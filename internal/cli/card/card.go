// Package card has the words of the command line about the health of devices.
//
// Place: layer 5, on call. Promise: everything that is known about why a device is closed is shown, in the
// caller's language. Enemies: a column that nobody can read.
package card

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Commands are `fermi node show, fault, test`. place reads which node and device is meant, describe prints everything about an object.
func Commands(a *call.Shell, place func(*cobra.Command, string) (string, int, error), describe func(context.Context, *call.Session, api.Object) error) []*cobra.Command {
	show := &cobra.Command{
		Use: "show NODE", Short: speech.Both("Show a node, and the health of its devices", "查看节点及其加速卡健康状况"), Args: usage.Need(1, 1, "NODE"),
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			o, err := s.Client.Get(ctx, api.KindNode, "", args[0])
			if err != nil {
				return err
			}
			if s.Structured() {
				return s.Data(o)
			}
			return describe(ctx, s, o)
		}),
	}
	test := &cobra.Command{
		Use: "test NODE[/DEVICE]...", Short: speech.Both("Test devices that were closed for a fault again", "重新检测因故障停用的加速卡"), Args: usage.Need(1, -1, "NODE[/DEVICE]..."),
		RunE: a.Online(func(ctx context.Context, s *call.Session, args []string) error {
			for _, arg := range args {
				node, device, err := place(s.Cmd, arg)
				if err != nil {
					return err
				}
				if _, err := s.Client.NodeVerb(ctx, "test", node, device); err != nil {
					return err
				}
				line(s, fault.T("node/%s is tested when nothing runs on it", "node/%s 将在无任务时检测", arg))
			}
			return nil
		}),
	}
	return []*cobra.Command{show, faultCommand(a), test}
}

func faultCommand(a *call.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use: "fault NODE", Short: speech.Both("Drill: act as if a device had a fault, and watch what becomes of it", "演练：注入加速卡故障并观察处置过程"), Args: usage.Need(1, 1, "NODE"),
		Example: "  fermi node fault beijing-1-n03 --device 2 --kind xid-79 --heal",
	}
	device := cmd.Flags().Int("device", 0, speech.Both("which device, from 0", "加速卡编号，从 0 开始"))
	kind := cmd.Flags().String("kind", "xid-79", speech.Both("xid-N, lost, silent, ecc, pages, rows, recovery, throttle, nvlink or pcie", "xid-N、lost、silent、ecc、pages、rows、recovery、throttle、nvlink 或 pcie"))
	heal := cmd.Flags().Bool("heal", false, speech.Both("the fault is over when the device is tested", "检测时故障已恢复"))
	wait := cmd.Flags().Duration("wait", 5*time.Minute, speech.Both("how long to watch; 0: not at all", "观察的最长时间；0 为不观察"))
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		n, err := client.NodeFault(ctx, s.Client, args[0], *device, *kind, *heal)
		if err != nil {
			return err
		}
		if s.Structured() {
			return s.Data(n)
		}
		line(s, fault.T("0.000s injected: %s of device %d", "0.000s 已注入：%s，加速卡 %d", *kind, *device))
		if *wait <= 0 {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, *wait)
		defer cancel()
		return watch(ctx, s, args[0], *device, card.OrderOf(n.Spec.DeviceOrders, *device))
	})
	return cmd
}

// watch prints each state of a device after an order, until it is tested.
func watch(ctx context.Context, s *call.Session, node string, device int, order *card.DeviceOrder) error {
	if order == nil {
		return nil
	}
	var last card.DeviceState
	for {
		o, err := s.Client.Get(ctx, api.KindNode, "", node)
		if err != nil {
			return unseen(ctx, err)
		}
		h := card.Of(o.(*api.Node).Status.Devices, device)
		if h != nil && h.Ordered != nil && !h.Ordered.Before(order.At) {
			if h.State != last {
				last = h.State
				line(s, fault.T("%.3fs %s", "%.3fs %s", max(h.Since.Sub(order.At), 0).Seconds(), Line(h, s.Lang)))
			}
			if h.State == card.DeviceOpen || h.State == card.DeviceOut {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return unseen(ctx, ctx.Err())
		case <-s.Clock.After(50 * time.Millisecond):
		}
	}
}

func unseen(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fault.New(fault.Unavailable, "NotTested", fault.T("The device is not tested so far.", "该加速卡尚未检测完成。")).
		WithHint(fault.T("Look at it with fermi node show, or wait longer with --wait.", "请用 fermi node show 查看，或用 --wait 延长等待。")).Because(err)
}

func line(s *call.Session, t fault.Text) { fmt.Fprintln(s.Out, t.In(s.Lang)) }

// words of the states.
var words = map[card.DeviceState]fault.Text{
	card.DeviceOpen: fault.T("open", "可用"), card.DeviceClosed: fault.T("closed", "已停用"), card.DeviceTesting: fault.T("testing", "检测中"), card.DeviceOut: fault.T("kept out", "暂不启用"),
}

// Line is a device's state and why it is so.
func Line(h *card.DeviceHealth, lang string) string {
	out := words[h.State].In(lang)
	if h.Reason != "" {
		out += " (" + h.Reason + ")"
	}
	if text := h.Message.In(lang); text != "" {
		out += ": " + text
	}
	return clean(out)
}

// Sheet is the health of a node's devices for its description: name and value, in order.
func Sheet(n *api.Node, lang string, now time.Time) (out [][2]string) {
	add := func(en, zh, value string) {
		out = append(out, [2]string{fault.Text{EN: en, ZH: zh}.In(lang), value})
	}
	for i := range n.Status.Devices {
		h := &n.Status.Devices[i]
		number := strconv.Itoa(h.Device)
		add("Device "+number, "加速卡 "+number, Line(h, lang))
		for _, c := range h.Conditions {
			add("  condition", "  状况", clean(fmt.Sprintf("%s [%s] %s", c.Kind, c.Action, c.Message.In(lang)))+ago(c.Since, now, lang))
		}
		if t := h.Test; t != nil {
			result := fault.T("passed", "通过").In(lang)
			if !t.Passed {
				result = fault.T("failed", "未通过").In(lang)
			}
			add("  last test", "  上次检测", clean(strings.TrimSpace(result+" ("+t.How+") "+t.Message.In(lang)))+ago(t.At, now, lang))
		}
		for _, f := range h.Faults {
			add("  fault", "  故障记录", clean(fmt.Sprintf("%s [%s, %s] %s", f.Kind, f.Action, f.Source, f.Message.In(lang)))+ago(f.At, now, lang))
		}
	}
	if n.Status.Failures > 0 {
		add("Failures", "近期故障", fault.T("%d within a day; other nodes are preferred", "一天内 %d 次；优先使用其他节点", n.Status.Failures).In(lang))
	}
	return out
}

func ago(at, now time.Time, lang string) string {
	d := now.Sub(at).Round(time.Second)
	return fault.T(", %s ago", "，%s前", max(d, 0)).In(lang)
}

// clean takes out what could change the terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// Launchers says what an update left as it is.
func Launchers(l api.LauncherVersion) fault.Text {
	switch {
	case l.Version == "" && l.Count == 1:
		return fault.T("1 of an older version still runs: it keeps what it was started with until its replica ends.", "1 个旧版本启动器仍在运行：在其副本结束前沿用启动时的行为。")
	case l.Version == "":
		return fault.T("%d of an older version still run: they keep what they were started with until their replicas end.", "%d 个旧版本启动器仍在运行：在各自副本结束前沿用启动时的行为。", l.Count)
	case l.Count == 1:
		return fault.T("1 of version %s still runs: it keeps what it was started with until its replica ends.", "1 个 %s 版本的启动器仍在运行：在其副本结束前沿用启动时的行为。", l.Version)
	}
	return fault.T("%[1]d of version %[2]s still run: they keep what they were started with until their replicas end.", "%[1]d 个 %[2]s 版本的启动器仍在运行：在各自副本结束前沿用启动时的行为。", l.Count, l.Version)
}

// State is what a list says of a node's devices; "": all take work.
func State(n *api.Node, lang string) string {
	closed := 0
	for i := range n.Status.Devices {
		if n.Status.Devices[i].Closed() {
			closed++
		}
	}
	if closed == 0 {
		return ""
	}
	return fault.T(", %d [device|devices] closed", "，%d 张卡停用", closed).In(lang)
}
