package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/way"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/cli/speech"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// wayCommand shows, or says, how machines of two zones reach each other.
func wayCommand(a *call.Shell) *cobra.Command {
	var to way.Way
	var forget bool
	cmd := &cobra.Command{
		Use: "way [ZONE] [ZONE]", Short: speech.Both("Show or set how machines of two zones reach each other: their network, and encryption", "查看或设置两个可用区之间的通路：所用网络与是否加密"), Args: usage.Need(0, 2, "[ZONE] [ZONE]"),
		Long: speech.Both("Show how machines of zones reach each other. With two zones and a flag it is set, in the first of them; what is not named stays as it is. The same zone twice means its machines among themselves.",
			"查看可用区之间的通路。给出两个可用区和选项时进行设置（记在前者中），未指定的内容保持不变。同一可用区写两次表示区内机器之间。"),
		Example: "  fermi zone way\n  fermi zone way east west --network 10.8.0.0/16 --encrypted\n  fermi zone way east west --encrypted=false\n  fermi zone way east west --remove",
	}
	f := cmd.Flags()
	f.StringVar(&to.Network, "network", "", speech.Both("network in which they use their address, as 10.20.0.0/16; empty: the address that agents give", "使用其中地址的网段，如 10.20.0.0/16；留空则使用 agent 给出的地址"))
	f.BoolVar(&to.Encrypted, "encrypted", false, speech.Both("encrypt all that they send each other; --encrypted=false ends that", "加密彼此之间的全部流量；--encrypted=false 取消"))
	f.BoolVar(&forget, "remove", false, speech.Both("take away what the first zone says of it", "删除前一个可用区中的设置"))
	cmd.MarkFlagsMutuallyExclusive("remove", "network")
	cmd.MarkFlagsMutuallyExclusive("remove", "encrypted")
	cmd.RunE = a.Online(func(ctx context.Context, s *call.Session, args []string) error {
		said := f.Changed
		sets := said("network") || said("encrypted") || forget
		if sets && len(args) != 2 {
			return fault.New(fault.Invalid, "Usage", fault.T("Say between which two zones: fermi zone way ZONE ZONE.", "请指定两个可用区：fermi zone way ZONE ZONE。"))
		}
		names := make([]string, len(args))
		for i, arg := range args { // it may be called by its display name
			o, err := s.Client.Get(ctx, api.KindZone, "", arg)
			if err != nil {
				return err
			}
			names[i] = o.GetMeta().Name
		}
		if sets {
			if _, err := object.Change(ctx, s, names[0], func(z *api.Zone) {
				w := z.Spec.Ways[names[1]]
				if said("network") {
					w.Network = to.Network
				}
				if said("encrypted") {
					w.Encrypted = to.Encrypted
				}
				if z.Spec.Ways == nil {
					z.Spec.Ways = map[string]way.Way{}
				}
				if z.Spec.Ways[names[1]] = w; forget || w == (way.Way{}) {
					delete(z.Spec.Ways, names[1])
				}
			}); err != nil {
				return err
			}
		}
		var zones []*api.Zone
		if err := s.Client.Walk(ctx, api.KindZone, client.ListOptions{}, func(o api.Object) bool {
			zones = append(zones, o.(*api.Zone))
			return true
		}); err != nil {
			return err
		}
		held := waysOf(zones, names)
		if s.Structured() {
			return s.Data(struct {
				Items []heldWay `json:"items"`
			}{held})
		}
		return showWays(s, held)
	})
	return cmd
}

// heldWay is what holds between two zones, and which of them say so.
type heldWay struct {
	From   string   `json:"from"`
	To     string   `json:"to"`
	SaidBy []string `json:"saidBy"`
	way.Way
}

// waysOf is what is said of the ways between zones; named are both of them, or the one from which it is seen.
func waysOf(zones []*api.Zone, named []string) []heldWay {
	slices.SortFunc(zones, func(a, b *api.Zone) int { return strings.Compare(a.Meta.Name, b.Meta.Name) })
	held := []heldWay{}
	for i, from := range zones {
		for _, to := range zones[i:] {
			a, b := from, to
			if len(named) > 0 && b.Meta.Name == named[0] {
				a, b = b, a
			}
			if len(named) > 0 && a.Meta.Name != named[0] || len(named) > 1 && b.Meta.Name != named[1] {
				continue
			}
			h := heldWay{From: a.Meta.Name, To: b.Meta.Name, SaidBy: []string{}}
			h.Network = way.Network(h.From, &a.Spec.Roads, h.To, &b.Spec.Roads)
			h.Encrypted = way.Encrypted(h.From, &a.Spec.Roads, h.To, &b.Spec.Roads)
			for _, end := range slices.Compact([]*api.Zone{a, b}) {
				other := h.To
				if end == b {
					other = h.From
				}
				if _, said := end.Spec.Ways[other]; said {
					h.SaidBy = append(h.SaidBy, end.Meta.Name)
				}
			}
			if len(h.SaidBy) > 0 || len(named) > 1 {
				held = append(held, h)
			}
		}
	}
	return held
}

var wayColumns = []show.Column{
	show.Fixed("FROM", "从"), show.Fixed("TO", "到"), show.Fixed("NETWORK", "网络"), show.Fixed("ENCRYPTED", "加密"), show.Col("SAID BY", "设置于"),
}

func showWays(s *call.Session, held []heldWay) error {
	if len(held) == 0 {
		show.Line(s.Out, s.T("Nothing is said of the ways between zones: machines use the address that their agents give, in plain.", "没有设置通路：机器使用 agent 给出的地址，不加密。"))
		return nil
	}
	rows := make([][]show.Cell, len(held))
	for i, h := range held {
		secret := s.T("no", "否")
		if h.Encrypted {
			secret = s.T("yes", "是")
		}
		rows[i] = []show.Cell{show.Text(h.From), show.Text(h.To), show.Text(cmp.Or(h.Network, "-")), show.Text(secret), show.Text(cmp.Or(strings.Join(h.SaidBy, ", "), "-"))}
	}
	return show.Write(s.Out, wayColumns, rows, s.Lang, show.ScreenOf(s.Out))
}
